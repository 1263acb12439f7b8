package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailrace/tailrace/sink/row"
)

// lastRows selects the last row of each session. The views leave out rows that do not count.
const lastRows = `SELECT DISTINCT ON (tenant, root, session) stream_epoch, partition, seq, stored_at, tenant, root, session FROM (
		SELECT stream_epoch, partition, max(seq) AS seq, max(stored_at) AS stored_at, tenant, root, session FROM (
			SELECT stream_epoch, partition, seq, stored_at, tenant, root, session FROM tailrace.events_counted
			UNION ALL SELECT stream_epoch, partition, seq, stored_at, tenant, root, session FROM tailrace.observations_counted) r
		WHERE partition = $1 AND ($2::timestamptz IS NULL OR stored_at >= $2) AND ($3 = '' OR tenant = $3) AND ($4 = '' OR root = $4)
		GROUP BY stream_epoch, partition, tenant, root, session) s
	ORDER BY tenant, root, session, stored_at DESC, seq DESC`

// undefinedTable is the SQLSTATE of a statement over tables that no Begin has created yet.
const undefinedTable = "42P01"

// Sessions implements row.Store.
func (s *Store) Sessions(ctx context.Context, of row.Selection, yield func(row.Place) error) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	var since any
	if !of.Since.IsZero() {
		since = of.Since
	}
	rows, err := s.pool.Query(ctx, lastRows, of.Partition, since, of.Tenant, of.Root)
	if err == nil {
		var p row.Place
		_, err = pgx.ForEachRow(rows, []any{&p.StreamEpoch, &p.Partition, &p.Seq, &p.StoredAt, &p.Tenant, &p.Root, &p.Session}, func() error {
			p.StoredAt = p.StoredAt.UTC()
			return yield(p)
		})
	}
	if isUndefined(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sessions in Postgres: %w", err)
	}
	return nil
}

func isUndefined(err error) bool {
	pgError := new(pgconn.PgError)
	return errors.As(err, &pgError) && pgError.Code == undefinedTable
}

// Delete implements row.Store: it deletes the rows that gaps cover.
func (s *Store) Delete(ctx context.Context, gaps []row.Gap) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPositions); err != nil {
			return err
		}
		if err := storeGaps(ctx, tx, gaps); err != nil {
			return err
		}
		if err := erase(ctx, tx, gaps); err != nil {
			return err
		}
		return updateSessions(ctx, tx, &row.Batch{Gaps: gaps})
	})
	if err != nil {
		return fmt.Errorf("delete sessions in Postgres: %w", err)
	}
	return nil
}

// Positions implements row.Store.
func (s *Store) Positions(ctx context.Context, partitions int) ([]row.Position, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	all := make([]row.Position, partitions)
	for p := range all {
		all[p].Partition = p
	}
	rows, err := s.pool.Query(ctx, `SELECT `+positionColumns+` FROM tailrace.positions WHERE name = $1 AND partition < $2`, s.cfg.Name, partitions)
	var found []row.Position
	if err == nil {
		found, err = pgx.CollectRows(rows, scanPosition)
	}
	if isUndefined(err) {
		return all, nil
	}
	if err != nil {
		return nil, fmt.Errorf("positions in Postgres: %w", err)
	}
	for _, at := range found {
		all[at.Partition] = at
	}
	return all, nil
}
