package sql_test

import (
	"flag"
	"fmt"
	"os"
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
	_, afterLake, _ := strings.Cut(sql.DuckDB("/lake"), "\n-- Rows that do not count")
	return "set timezone = 'UTC';\n" + tables() + "--" + afterLake
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

var update = flag.Bool("update", false, "write the views of docs/reference/tables.md")

const reference = "../../docs/reference/tables.md"

// TestReference compares the views in docs/reference/tables.md with those that DuckDB has.
func TestReference(t *testing.T) {
	db := duckdbtest.Open(t)
	db.Query(views())
	var text strings.Builder
	text.WriteString("\n| view | columns |\n|---|---|\n")
	for _, view := range reports {
		var columns []string
		for _, r := range db.Query("describe " + view) {
			columns = append(columns, "`"+*r["column_name"]+"`")
		}
		list := strings.Join(columns, ", ")
		if table, ok := strings.CutSuffix(view, "_current"); ok {
			list = "those of `" + table + "`"
		}
		text.WriteString("| `" + view + "` | " + list + " |\n")
	}
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "go test ./sql -run TestReference -update` -->\n", "\n<!-- end of views -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the marks around the views", reference)
	}
	want := before + begin + text.String() + end + after
	if *update {
		if err := os.WriteFile(reference, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is out of date: run this test with -update", reference)
	}
}
