package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/sql"
)

// createSessions creates the table sessions from the view that computes it.
const createSessions = `DROP TABLE IF EXISTS tailrace.sessions; CREATE TABLE tailrace.sessions AS TABLE tailrace.sessions_computed;
	ALTER TABLE tailrace.sessions ADD PRIMARY KEY (tenant, root); CREATE INDEX sessions_last_time ON tailrace.sessions (tenant, last_time)`

// createViews creates the views and the table sessions if another version of this program has created them, or none.
func createViews(ctx context.Context, tx pgx.Tx) error {
	views := sql.Postgres() + "\n" + strings.Replace(sql.Sessions(), "view sessions as", "view sessions_computed as", 1)
	digest := sha256.Sum256([]byte(views + createSessions))
	version := hex.EncodeToString(digest[:16])
	var stored *string
	if err := tx.QueryRow(ctx, `SELECT obj_description(to_regclass('tailrace.sessions_computed'), 'pg_class')`).Scan(&stored); err != nil {
		return err
	}
	if stored != nil && *stored == version {
		return nil
	}
	for _, statement := range []string{
		`SET LOCAL search_path = tailrace`, views, createSessions, `COMMENT ON VIEW tailrace.sessions_computed IS '` + version + `'`,
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create views: %w", err)
		}
	}
	return nil
}
