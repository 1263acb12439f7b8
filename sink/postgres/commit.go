package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/row"
)

// Commit stores a batch in one transaction. After an error other than row.ErrConflict the batch may be stored: the error may be that of a COMMIT without an answer.
func (s *Store) Commit(ctx context.Context, after row.Position, b *row.Batch) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	if err := s.createMonths(ctx, b.Events); err != nil {
		return fmt.Errorf("commit to Postgres: %w", err)
	}
	err := pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) error {
		if err := s.advance(ctx, tx, after, b.Through); err != nil {
			return err
		}
		if err := copyRows(ctx, tx, pgx.Identifier{"tailrace", "events"}, events, b.Events); err != nil {
			return err
		}
		if err := storeGaps(ctx, tx, b.Gaps); err != nil {
			return err
		}
		if err := storeObservations(ctx, tx, b.Observations); err != nil {
			return err
		}
		if err := erase(ctx, tx, b.Gaps); err != nil {
			return err
		}
		return updateSessions(ctx, tx, b)
	})
	if err != nil {
		return fmt.Errorf("commit to Postgres: %w", err)
	}
	return nil
}

// logPosition adds a commit to positions_log, and removes older ones of its generation as Before documents it: Before names each generation.
const logPosition = `WITH removed AS (DELETE FROM tailrace.positions_log WHERE name = $1 AND partition = $2
	AND generation = $3 AND (number = $8::bigint - 4096 AND number % 64 <> 0 OR number = $8::bigint - 262144 AND number % 4096 <> 0))
	INSERT INTO tailrace.positions_log (name, partition, generation, history, seq, anchor, stored_at, number) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

// advance moves the position. It is the fence: a second writer waits for the lock of the row, and then finds another position.
func (s *Store) advance(ctx context.Context, tx pgx.Tx, after, through row.Position) error {
	var storedAt *time.Time
	if !through.StoredAt.IsZero() {
		storedAt = &through.StoredAt
	}
	position := []any{s.cfg.Name, through.Partition, through.Generation, through.History, int64(through.Seq), int64(through.Anchor), storedAt}
	var number int64
	err := tx.QueryRow(ctx, `UPDATE tailrace.positions SET generation = $3, history = $4, seq = $5, anchor = $6, stored_at = $7, commits = commits + 1
		WHERE name = $1 AND partition = $2 AND generation = $8 AND seq = $9 RETURNING commits`,
		append(slices.Clone(position), after.Generation, int64(after.Seq))...).Scan(&number)
	if err == pgx.ErrNoRows { //nolint:errorlint // Scan returns it as it is
		return row.ErrConflict
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, logPosition, append(position, number)...)
	return err
}

// upsertObservations replaces older rows. A stored row of another history is older: the position has left that history.
var upsertObservations = func() string {
	var set []string
	for _, name := range observations.names() {
		if name != "id" {
			set = append(set, name+" = excluded."+name)
		}
	}
	names := strings.Join(observations.names(), ", ")
	return `INSERT INTO tailrace.observations AS o (` + names + `) SELECT ` + names + ` FROM incoming_observations ON CONFLICT (id) DO UPDATE SET ` + strings.Join(set, ", ") +
		` WHERE excluded.seq > o.seq OR excluded.stream_epoch <> o.stream_epoch`
}()

// storeObservations stores the newest row of each observation of a batch.
func storeObservations(ctx context.Context, tx pgx.Tx, batch []row.Observation) error {
	if len(batch) == 0 {
		return nil
	}
	newest := map[string]int{}
	for i := range batch {
		newest[batch[i].ID] = i
	}
	latest := make([]row.Observation, 0, len(newest))
	for i := range batch {
		if newest[batch[i].ID] == i {
			latest = append(latest, batch[i])
		}
	}
	if err := copyRows(ctx, tx, pgx.Identifier{"incoming_observations"}, observations, latest); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, upsertObservations)
	return err
}

// storeGaps stores gaps. One that is stored stays: a log that is created again twice has lost the records of its first history twice.
func storeGaps(ctx context.Context, tx pgx.Tx, batch []row.Gap) error {
	if len(batch) == 0 {
		return nil
	}
	if err := copyRows(ctx, tx, pgx.Identifier{"incoming_gaps"}, gaps, batch); err != nil {
		return err
	}
	names := strings.Join(gaps.names(), ", ")
	_, err := tx.Exec(ctx, `INSERT INTO tailrace.gaps (`+names+`) SELECT `+names+` FROM incoming_gaps ON CONFLICT DO NOTHING`)
	return err
}

// erase deletes the rows that gaps cover, see row.Gap.Covers.
func erase(ctx context.Context, tx pgx.Tx, gaps []row.Gap) error {
	for i := range gaps {
		g := &gaps[i]
		if !g.Erases() {
			continue
		}
		for _, name := range []string{"events", "observations"} {
			_, err := tx.Exec(ctx, `DELETE FROM tailrace.`+name+` WHERE tenant = $1 AND root = $2 AND ($2 = $3 OR session = $3) AND partition = $4
				AND CASE WHEN stream_epoch = $5 THEN seq <= coalesce($6::bigint, $7) ELSE stored_at <= $8 END`,
				g.Tenant, g.Root, g.Session, g.Partition, g.StreamEpoch, g.ToSeq, g.Seq, g.StoredAt)
			if err != nil {
				return fmt.Errorf("erase rows of %s: %w", name, err)
			}
		}
	}
	return nil
}
