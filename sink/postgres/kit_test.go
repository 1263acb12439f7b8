package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailrace/tailrace/sink/internal/pgtest"
	"github.com/tailrace/tailrace/sink/row"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// openStore opens a store of one partition with the name "sink", and closes it at the end of the test.
func openStore(tb testing.TB, url string) *Store {
	tb.Helper()
	return openNamed(tb, Config{URL: url, Name: "sink"})
}

func openNamed(tb testing.TB, cfg Config) *Store {
	tb.Helper()
	s, err := Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// begin returns the position of partition 0.
func begin(tb testing.TB, s *Store) row.Position {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	positions, err := s.Begin(ctx, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return positions[0]
}

func connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// contents are all rows of a database.
type contents struct {
	Events       []row.Event
	Observations []row.Observation
	Gaps         []row.Gap
}

func read(ctx context.Context, t tester, conn *pgx.Conn) contents {
	t.Helper()
	return contents{
		Events:       readTable[row.Event](ctx, t, conn, events, "stream_epoch, partition, seq"),
		Observations: readTable[row.Observation](ctx, t, conn, observations, "id"),
		Gaps:         readTable[row.Gap](ctx, t, conn, gaps, "stream_epoch, partition, seq, reason, from_ordinal"),
	}
}

func readTable[T any](ctx context.Context, t tester, conn *pgx.Conn, from table, order string) []T {
	t.Helper()
	names := from.names()
	for i, c := range from.columns {
		if c.Type == row.TypeJSON {
			names[i] += "::text"
		}
	}
	rows, err := conn.Query(ctx, "SELECT "+strings.Join(names, ", ")+" FROM tailrace."+from.name+" ORDER BY "+order)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (T, error) {
		var value T
		values, err := r.Values()
		if err != nil {
			return value, err
		}
		for i, c := range from.columns {
			set(reflect.ValueOf(&value).Elem().FieldByIndex(c.Index), values[i])
		}
		return value, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// set stores a value as pgx returns it.
func set(field reflect.Value, value any) {
	if value == nil {
		return
	}
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	switch v := value.(type) {
	case time.Time:
		field.Set(reflect.ValueOf(v.UTC()))
	case pgtype.Numeric:
		field.SetInt(unitsOf(v))
	default:
		field.Set(reflect.ValueOf(v).Convert(field.Type()))
	}
}

func unitsOf(n pgtype.Numeric) int64 {
	units := new(big.Rat).SetInt(n.Int)
	ten := big.NewRat(10, 1)
	for range n.Exp + 9 {
		units.Mul(units, ten)
	}
	for range -(n.Exp + 9) {
		units.Quo(units, ten)
	}
	if !units.IsInt() {
		panic(fmt.Sprintf("%v has more than nine digits", n))
	}
	return units.Num().Int64()
}

// checkSessions compares the table sessions with the view that computes it from all rows.
func checkSessions(ctx context.Context, t tester, conn *pgx.Conn) {
	t.Helper()
	for _, tables := range [][2]string{{"sessions", "sessions_computed"}, {"sessions_computed", "sessions"}} {
		rows, err := conn.Query(ctx, "SELECT row_to_json(s)::text FROM (TABLE tailrace."+tables[0]+" EXCEPT TABLE tailrace."+tables[1]+") s")
		if err != nil {
			t.Fatal(err)
		}
		different, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if len(different) > 0 {
			t.Fatalf("%s has rows that %s does not have: %s", tables[0], tables[1], strings.Join(different, "\n"))
		}
	}
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func compare(t tester, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// quoted returns s as JSON.
func quoted(s string) row.JSON {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return row.JSON(text)
}
