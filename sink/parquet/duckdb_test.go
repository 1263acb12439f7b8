package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/sink/internal/duckdbtest"
	"github.com/tailrace/tailrace/sink/row"
)

// openLake opens the lake in a directory in DuckDB, as a reader does that runs views.sql.
func openLake(t *testing.T, path string) *duckdbtest.DB {
	t.Helper()
	views, err := os.ReadFile(filepath.Join(path, viewsName))
	if err != nil {
		t.Fatal(err)
	}
	db := duckdbtest.Open(t)
	db.Query(string(views))
	return db
}

func TestDuckDBReadsEmptyLake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "100% lake [of] '?*tests'")
	s := openDirectory(t, path)
	if _, err := s.Begin(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	db := openLake(t, path)
	for _, view := range []string{"events_current", "observations_current", "gaps", "sessions", "turns", "cost_by_agent_day", "approval_waits"} {
		if rows := db.Query("from " + view); len(rows) != 0 {
			t.Errorf("%s has %d rows", view, len(rows))
		}
	}
}

func TestDuckDBReadsRows(t *testing.T) {
	path := t.TempDir()
	s := openDirectory(t, path)
	if err := commit(t.Context(), s, log1, 13, 100); err != nil {
		t.Fatal(err)
	}
	db, want := openLake(t, path), log1.batch(0, 100)
	wantTable(t, db, tableEvents, "seq", want.Events)
	wantTable(t, db, tableObservations, "seq, id", want.Observations)
	wantTable(t, db, tableGaps, "seq", want.Gaps)
	if got, want := len(db.Query("from events_current")), len(want.Events); got != want {
		t.Errorf("events_current has %d rows, want %d", got, want)
	}
	if got, want := len(db.Query("from observations_current")), len(want.Observations); got != want {
		t.Errorf("observations_current has %d rows, want %d", got, want)
	}
}

// TestDuckDBReadsTypes reads rows with a value and without one in each column.
func TestDuckDBReadsTypes(t *testing.T) {
	path := t.TempDir()
	s := openDirectory(t, path)
	if _, err := s.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	b := &row.Batch{Through: log1.position(9)}
	b.Events = []row.Event{filled[row.Event](1), {Place: row.Place{Seq: 2, StoredAt: firstDay}, Time: firstDay}}
	b.Observations = []row.Observation{filled[row.Observation](1), {Place: row.Place{Seq: 2, StoredAt: firstDay}, StartTime: firstDay}}
	b.Gaps = []row.Gap{filled[row.Gap](1), {Place: row.Place{Seq: 2, StoredAt: firstDay}}}
	if err := s.Commit(t.Context(), row.Position{}, b); err != nil {
		t.Fatal(err)
	}
	db := openLake(t, path)
	wantTable(t, db, tableEvents, "seq", b.Events)
	wantTable(t, db, tableObservations, "seq", b.Observations)
	wantTable(t, db, tableGaps, "seq", b.Gaps)
}

// filled is a row with another value in each column.
func filled[T any](seq int64) (r T) {
	v := reflect.ValueOf(&r).Elem()
	for i, c := range row.Columns[T]() {
		f := v.FieldByIndex(c.Index)
		if f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
			f = f.Elem()
		}
		switch c.Type {
		case row.TypeTime:
			f.Set(reflect.ValueOf(firstDay.Add(time.Duration(i) * time.Microsecond)))
		case row.TypeBool:
			f.SetBool(true)
		case row.TypeInt, row.TypeInt32, row.TypeMoney:
			f.SetInt(seq + int64(i)*1_000_001)
		case row.TypeJSON:
			f.SetString(fmt.Sprintf(`{"a": "ä\u0000 %d" }`, i))
		case row.TypeText:
			f.SetString(fmt.Sprintf("%s 'ü' %d", c.Name, i))
		}
	}
	v.FieldByName("Seq").SetInt(seq)
	v.FieldByName("StoredAt").Set(reflect.ValueOf(firstDay))
	return r
}

var duckDBTypes = map[row.Type]string{
	row.TypeText: "VARCHAR", row.TypeInt: "BIGINT", row.TypeInt32: "INTEGER", row.TypeBool: "BOOLEAN", row.TypeTime: "TIMESTAMP WITH TIME ZONE",
	row.TypeJSON: "VARCHAR", row.TypeMoney: "DECIMAL(18,9)",
}

// wantTable compares a table with rows, column by column.
func wantTable[T any](t testFailer, db *duckdbtest.DB, table, order string, want []T) {
	t.Helper()
	columns := row.Columns[T]()
	types := map[string]string{}
	for _, r := range db.Query("describe " + table) {
		types[*r["column_name"]] = *r["column_type"]
	}
	for _, c := range columns {
		if types[c.Name] != duckDBTypes[c.Type] {
			t.Errorf("%s.%s is %q, want %q", table, c.Name, types[c.Name], duckDBTypes[c.Type])
		}
		delete(types, c.Name)
	}
	if len(types) > 0 {
		t.Errorf("%s has the columns %v, too", table, types)
	}
	rows := make([]map[string]string, 0, len(want))
	for i := range want {
		r := map[string]string{}
		for _, c := range columns {
			if v := c.Value(reflect.ValueOf(want[i])); v != nil {
				r[c.Name] = textOf(v)
			}
		}
		rows = append(rows, r)
	}
	var got []map[string]string
	for _, r := range db.Query("from " + table + " order by " + order) {
		texts := map[string]string{}
		for column, v := range r {
			if v != nil {
				texts[column] = *v
			}
		}
		got = append(got, texts)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", table, diff)
	}
}

// textOf is a value as DuckDB prints it.
func textOf(v any) string {
	switch v := v.(type) {
	case time.Time:
		s := v.Format("2006-01-02 15:04:05.999999")
		return s + "+00"
	case row.Money:
		return fmt.Sprintf("%d.%09d", v/1_000_000_000, v%1_000_000_000)
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		return fmt.Sprint(v)
	}
}
