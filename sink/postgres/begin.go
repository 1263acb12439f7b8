package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// readCommitted is the isolation in which an UPDATE that has waited for another writer compares with what that writer has stored.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// Begin waits for the lease of the name, creates what is missing of the schema, and returns the positions. It fails if another sink stores the same tenant in this
// database.
func (s *Store) Begin(ctx context.Context, partitions int) ([]row.Position, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	select {
	case s.lease.turn <- struct{}{}:
		defer func() { <-s.lease.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !s.lease.isHeld(ctx) {
		s.pool.Reset() // what ended the connection of the lease has probably ended the others
		if err := s.lease.acquire(ctx, s.cfg.Name); err != nil {
			return nil, fmt.Errorf("begin in Postgres: %w", err)
		}
	}
	s.months.forget()
	var positions []row.Position
	err := pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) (err error) {
		if err := createSchema(ctx, tx); err != nil {
			return err
		}
		if err := s.register(ctx, tx, partitions); err != nil {
			return err
		}
		positions, err = s.positions(ctx, tx, partitions)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("begin in Postgres: %w", err)
	}
	return positions, nil
}

// register stores a position for each partition that has none, and refuses a tenant that another sink stores.
func (s *Store) register(ctx context.Context, tx pgx.Tx, partitions int) error {
	var name, tenant string
	err := tx.QueryRow(ctx, `SELECT name, tenant FROM tailrace.positions
		WHERE name <> $1 AND (tenant = $2 OR tenant = '' OR $2 = '') OR name = $1 AND tenant <> $2 LIMIT 1`, s.cfg.Name, s.cfg.Tenant).Scan(&name, &tenant)
	if err == nil {
		return fmt.Errorf("%w: sink %q stores tenant %q in this database, sink %q cannot store tenant %q (\"\" means all tenants)", row.ErrOtherTenant, name, tenant, s.cfg.Name, s.cfg.Tenant)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO tailrace.positions SELECT $1, $2, p, 0, '', 0, 0, NULL, 0 FROM generate_series(0, $3::integer - 1) p ON CONFLICT DO NOTHING`,
		s.cfg.Name, s.cfg.Tenant, partitions)
	return err
}

const positionColumns = `partition, generation, history, seq, anchor, stored_at`

func (s *Store) positions(ctx context.Context, tx pgx.Tx, partitions int) ([]row.Position, error) {
	rows, err := tx.Query(ctx, `SELECT `+positionColumns+` FROM tailrace.positions WHERE name = $1 AND partition < $2 ORDER BY partition`, s.cfg.Name, partitions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanPosition)
}

// Before returns the position of the newest commit of a partition before at, and false if there is none. Of the commits of a generation before the last 4,096 it knows each 64th, of
// those before the last 262,144 each 4,096th.
func (s *Store) Before(ctx context.Context, at row.Position) (row.Position, bool, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT `+positionColumns+` FROM tailrace.positions_log WHERE name = $1 AND partition = $2 AND (generation, seq) < ($3, $4)
		ORDER BY generation DESC, seq DESC LIMIT 1`, s.cfg.Name, at.Partition, at.Generation, int64(at.Seq))
	if err != nil {
		return row.Position{}, false, fmt.Errorf("read positions in Postgres: %w", err)
	}
	position, err := pgx.CollectExactlyOneRow(rows, scanPosition)
	if errors.Is(err, pgx.ErrNoRows) {
		return row.Position{}, false, nil
	}
	if err != nil {
		return row.Position{}, false, fmt.Errorf("read positions in Postgres: %w", err)
	}
	return position, true, nil
}

func scanPosition(from pgx.CollectableRow) (row.Position, error) {
	var at row.Position
	var seq, anchor int64
	var storedAt *time.Time
	err := from.Scan(&at.Partition, &at.Generation, &at.History, &seq, &anchor, &storedAt)
	at.Seq, at.Anchor = chunk.Seq(seq), chunk.Anchor(anchor)
	if storedAt != nil {
		at.StoredAt = storedAt.UTC()
	}
	return at, err
}
