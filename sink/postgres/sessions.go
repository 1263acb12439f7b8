package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/row"
)

// recreatedRoots selects the roots whose rows, or whose cleanups, no longer count because the log has lost their records.
const recreatedRoots = `SELECT tenant, root FROM tailrace.observations WHERE partition = $1 AND stream_epoch = $2 AND seq BETWEEN $3 AND $4
UNION SELECT tenant, root FROM tailrace.gaps WHERE reason = 'removed' AND partition = $1 AND stream_epoch = $2 AND seq BETWEEN $3 AND $4`

const deleteSessions = `DELETE FROM tailrace.sessions s USING unnest($1::text[], $2::text[]) AS touched (tenant, root) WHERE s.tenant = touched.tenant AND s.root = touched.root`

// insertSessions computes sessions again. OFFSET 0 makes Postgres read the rows of one root at a time, by an index.
//
//nolint:unqueryvet // the table is created from this view: they have the same columns
const insertSessions = `INSERT INTO tailrace.sessions SELECT computed.* FROM unnest($1::text[], $2::text[]) AS touched (tenant, root),
	LATERAL (SELECT * FROM tailrace.sessions_computed s WHERE s.tenant = touched.tenant AND s.root = touched.root OFFSET 0) computed`

// root is the key of a session.
type root struct{ tenant, root string }

// updateSessions computes the sessions again whose rows a batch has changed.
func updateSessions(ctx context.Context, tx pgx.Tx, b *row.Batch) error {
	touched := map[root]struct{}{}
	for i := range b.Observations {
		touched[root{b.Observations[i].Tenant, b.Observations[i].Root}] = struct{}{}
	}
	for i := range b.Gaps {
		switch g := &b.Gaps[i]; g.Reason {
		case row.Deleted, row.Removed:
			touched[root{g.Tenant, g.Root}] = struct{}{}
		case row.Recreated:
			rows, err := tx.Query(ctx, recreatedRoots, g.Partition, g.StreamEpoch, g.FromSeq, g.ToSeq)
			if err != nil {
				return err
			}
			var r root
			if _, err := pgx.ForEachRow(rows, []any{&r.tenant, &r.root}, func() error { touched[r] = struct{}{}; return nil }); err != nil {
				return err
			}
		}
	}
	return computeSessions(ctx, tx, touched)
}

func computeSessions(ctx context.Context, tx pgx.Tx, touched map[root]struct{}) error {
	if len(touched) == 0 {
		return nil
	}
	tenants, roots := make([]string, 0, len(touched)), make([]string, 0, len(touched))
	for r := range touched {
		tenants, roots = append(tenants, r.tenant), append(roots, r.root)
	}
	for _, statement := range []string{deleteSessions, insertSessions} {
		if _, err := tx.Exec(ctx, statement, tenants, roots); err != nil {
			return fmt.Errorf("compute sessions: %w", err)
		}
	}
	return nil
}
