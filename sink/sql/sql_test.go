package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/sink/internal/duckdbtest"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/sql"
)

// tables are the statements that create the tables of the package row in DuckDB.
func tables() string {
	return table("events", row.Columns[row.Event]()) + table("observations", row.Columns[row.Observation]()) + table("gaps", row.Columns[row.Gap]())
}

func table(name string, columns []row.Column) string {
	types := map[row.Type]string{
		row.TypeText: "text", row.TypeInt: "bigint", row.TypeInt32: "int", row.TypeBool: "bool", row.TypeTime: "timestamptz", row.TypeJSON: "text", row.TypeMoney: "decimal(18,9)",
	}
	defs := make([]string, 0, len(columns))
	for _, c := range columns {
		defs = append(defs, c.Name+" "+types[c.Type])
	}
	return fmt.Sprintf("create table %s (%s);\n", name, strings.Join(defs, ", "))
}

// views are the statements of the views over tables in memory.
func views() string {
	_, afterLake, _ := strings.Cut(sql.DuckDB("/lake"), "gaps/*/*.parquet', union_by_name = true, hive_partitioning = false);")
	return "set timezone = 'UTC';\n" + tables() + afterLake
}

var reports = []string{
	"events_current", "observations_current", "sessions", "turns", "tree", "cost_by_agent_day", "cost_by_user_day", "cost_by_model_day", "slowest_tools",
	"failing_sessions", "first_token", "approval_waits",
}

func TestViewsOfEmptyTables(t *testing.T) {
	db := duckdbtest.Open(t)
	db.Query(views())
	for _, view := range reports {
		if rows := db.Query("from " + view); len(rows) != 0 {
			t.Errorf("%s has %d rows", view, len(rows))
		}
	}
}
