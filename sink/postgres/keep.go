package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// deletedAtOnce is how many observations one transaction of Keep deletes.
const deletedAtOnce = 5000

const deleteOld = `DELETE FROM tailrace.observations WHERE ctid = ANY (ARRAY(SELECT ctid FROM tailrace.observations WHERE stored_at < $1 LIMIT $2)) RETURNING tenant, root`

// lockPositions makes commits wait, so that sessions are computed from rows that do not change.
const lockPositions = `SELECT FROM tailrace.positions ORDER BY name, partition FOR UPDATE`

// Keep deletes what was stored in the log before olderThan, of all sinks in the database: observations by their time, events and gaps in whole months.
func (s *Store) Keep(ctx context.Context, olderThan time.Time) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	for {
		deleted, err := s.deleteOld(ctx, olderThan)
		if err != nil {
			return fmt.Errorf("delete old observations: %w", err)
		}
		if deleted < deletedAtOnce {
			break
		}
	}
	month := monthOf(olderThan)
	if err := s.dropMonths(ctx, month); err != nil {
		return fmt.Errorf("delete old events: %w", err)
	}
	if _, err := s.pool.Exec(ctx, `DELETE FROM tailrace.gaps WHERE stored_at < $1`, month); err != nil {
		return fmt.Errorf("delete old gaps: %w", err)
	}
	return nil
}

// deleteOld deletes old observations, and computes their sessions again.
func (s *Store) deleteOld(ctx context.Context, olderThan time.Time) (deleted int, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPositions); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, deleteOld, olderThan, deletedAtOnce)
		if err != nil {
			return err
		}
		touched := map[root]struct{}{}
		var r root
		if _, err := pgx.ForEachRow(rows, []any{&r.tenant, &r.root}, func() error { touched[r] = struct{}{}; deleted++; return nil }); err != nil {
			return err
		}
		return computeSessions(ctx, tx, touched)
	})
	return deleted, err
}

// dropMonths drops the partitions of events before a month. Each waits at most 10 s for queries of events, because new queries wait for it.
func (s *Store) dropMonths(ctx context.Context, before time.Time) error {
	rows, err := s.pool.Query(ctx, `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'tailrace.events'::regclass AND c.relname ~ '^events_[0-9]{4}_[0-9]{2}$' AND c.relname < $1 ORDER BY 1`, before.Format(monthName))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		err := pgx.BeginTxFunc(ctx, s.pool, readCommitted, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '10s'; DROP TABLE `+pgx.Identifier{"tailrace", name}.Sanitize())
			return err
		})
		if err != nil {
			return err
		}
	}
	s.months.forget()
	return nil
}
