package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace/tailrace/sink/row"
)

// lockSchema is held by transactions that change the schema: processes that start at the same time change it one after the other.
const lockSchema = `SELECT pg_advisory_xact_lock(hashtextextended('tailrace sink schema', 0))`

// table is a table whose columns are those of a row.
type table struct {
	name    string
	columns []row.Column
	suffix  string // of the statement that creates it
	indexes []string
}

var (
	events = table{
		name: "events", columns: row.Columns[row.Event](),
		suffix:  `, PRIMARY KEY (stream_epoch, partition, seq, stored_at)) PARTITION BY RANGE (stored_at)`,
		indexes: []string{`events_root ON tailrace.events (tenant, root)`},
	}
	observations = table{
		name: "observations", columns: row.Columns[row.Observation](),
		suffix: `, PRIMARY KEY (id))`,
		indexes: []string{
			`observations_start ON tailrace.observations (tenant, start_time)`,
			`observations_root ON tailrace.observations (tenant, root)`,
			`observations_kind ON tailrace.observations (kind, start_time)`,
			`observations_waiting ON tailrace.observations (tenant, root) WHERE status = 'waiting'`,
			`observations_age ON tailrace.observations USING brin (stored_at)`,
		},
	}
	gaps = table{
		name: "gaps", columns: row.Columns[row.Gap](),
		suffix:  `, PRIMARY KEY (stream_epoch, partition, seq, reason, from_ordinal))`,
		indexes: []string{`gaps_root ON tailrace.gaps (tenant, root)`},
	}
)

// createOthers creates the tables that are not of package row. In positions_log a row is the end of a commit, number counts the commits of a partition.
const createOthers = `
CREATE TABLE IF NOT EXISTS tailrace.positions (
	name text, tenant text NOT NULL, partition integer, generation integer NOT NULL, history text NOT NULL, seq bigint NOT NULL, anchor bigint NOT NULL, stored_at timestamptz,
	commits bigint NOT NULL, PRIMARY KEY (name, partition));
CREATE TABLE IF NOT EXISTS tailrace.positions_log (
	name text, partition integer, number bigint, generation integer NOT NULL, history text NOT NULL, seq bigint NOT NULL, anchor bigint NOT NULL, stored_at timestamptz,
	PRIMARY KEY (name, partition, number))`

// createIncoming creates the tables through which the observations and gaps of a batch pass. Each connection has its own.
var createIncoming = `CREATE TEMPORARY TABLE incoming_observations (` + observations.definitions() + `) ON COMMIT DELETE ROWS;
	CREATE TEMPORARY TABLE incoming_gaps (` + gaps.definitions() + `) ON COMMIT DELETE ROWS`

// definitions returns the columns as CREATE TABLE has them.
func (t *table) definitions() string {
	definitions := make([]string, len(t.columns))
	for i, c := range t.columns {
		definitions[i] = c.Name + " " + typeName(c.Type)
		if !c.Optional {
			definitions[i] += " NOT NULL"
		}
	}
	return strings.Join(definitions, ", ")
}

func (t *table) names() []string {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.Name
	}
	return names
}

// typeName returns the name of a type as format_type of Postgres has it.
func typeName(t row.Type) string {
	switch t {
	case row.TypeInt:
		return "bigint"
	case row.TypeInt32:
		return "integer"
	case row.TypeBool:
		return "boolean"
	case row.TypeTime:
		return "timestamp with time zone"
	case row.TypeJSON:
		return "json"
	case row.TypeMoney:
		return "numeric(18,9)"
	case row.TypeText:
	}
	return "text"
}

// createSchema creates what is missing of the schema.
func createSchema(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, lockSchema); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT to_regnamespace('tailrace') IS NOT NULL`).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA tailrace`); err != nil {
			return err
		}
	}
	for _, t := range []table{events, observations, gaps} {
		if err := t.create(ctx, tx); err != nil {
			return fmt.Errorf("table tailrace.%s: %w", t.name, err)
		}
	}
	if _, err := tx.Exec(ctx, createOthers); err != nil {
		return err
	}
	if err := createIndex(ctx, tx, `positions_log_seq ON tailrace.positions_log (name, partition, generation, seq)`); err != nil {
		return err
	}
	return createViews(ctx, tx)
}

// create creates the table, or adds the columns that it does not have.
func (t *table) create(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS tailrace.`+t.name+` (`+t.definitions()+t.suffix); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, `SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = ('tailrace.' || $1)::regclass AND attnum > 0 AND NOT attisdropped`, t.name)
	if err != nil {
		return err
	}
	types := map[string]string{}
	var name, typ string
	if _, err := pgx.ForEachRow(rows, []any{&name, &typ}, func() error { types[name] = typ; return nil }); err != nil {
		return err
	}
	for _, c := range t.columns {
		switch want := typeName(c.Type); types[c.Name] {
		case want:
		case "":
			if _, err := tx.Exec(ctx, `ALTER TABLE tailrace.`+t.name+` ADD COLUMN `+c.Name+` `+want); err != nil {
				return err
			}
		default:
			return errors.New("column " + c.Name + " has type " + types[c.Name] + ", want " + want)
		}
	}
	for _, index := range t.indexes {
		if err := createIndex(ctx, tx, index); err != nil {
			return err
		}
	}
	return nil
}

// createIndex creates an index that is missing. CREATE INDEX IF NOT EXISTS locks the table before it looks: it would wait for each open commit, and a commit for it.
func createIndex(ctx context.Context, tx pgx.Tx, index string) error {
	name, _, _ := strings.Cut(index, " ")
	var exists bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('tailrace.' || $1) IS NOT NULL`, name).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := tx.Exec(ctx, `CREATE INDEX `+index)
	return err
}
