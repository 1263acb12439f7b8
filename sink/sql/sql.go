// Package sql has the views over the tables of a sink, for DuckDB and Postgres. Both engines run the same reports. The rows
// that count are found by statements for each engine.
//
// The views use the tables events, observations and gaps of package row. Readers use events_current, observations_current, sessions, turns, tree,
// cost_by_agent_day, cost_by_user_day, cost_by_model_day, slowest_tools, failing_sessions, first_token and approval_waits.
package sql

import (
	_ "embed"
	"strings"
)

//go:embed duckdb.sql
var duckDB string

//go:embed current_duckdb.sql
var currentDuckDB string

//go:embed current_postgres.sql
var currentPostgres string

//go:embed sessions.sql
var sessions string

//go:embed reports.sql
var reports string

// DuckDB returns the statements that define the tables and views over the Parquet files of a lake. The lake is an absolute path or a URL that DuckDB can read.
func DuckDB(lake string) string {
	return strings.Join([]string{strings.ReplaceAll(duckDB, "{lake}", inPattern.Replace(lake)), currentDuckDB, sessions, reports}, "\n")
}

// inPattern writes a name into a pattern of names in a text of SQL.
var inPattern = strings.NewReplacer("'", "''", "[", "[[]", "*", "[*]", "?", "[?]")

// Postgres returns the statements that define the views. The tables have to exist in the first schema of the search path. The statements contain no view sessions,
// which is a table in Postgres.
func Postgres() string {
	return strings.Join([]string{currentPostgres, reports}, "\n")
}

// Sessions returns the statement that defines the view sessions, after the others.
func Sessions() string { return sessions }
