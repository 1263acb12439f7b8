// Package duckdbtest runs SQL in DuckDB for tests. DuckDB comes from npm, as the lock file of this directory names it; it is installed once into .tools.
package duckdbtest

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tailrace/tailrace/sink/internal/npmtest"
)

//go:embed package.json package-lock.json duckdb.mjs
var sources embed.FS

// DB is a DuckDB in memory, in a process of its own that ends with the test.
type DB struct {
	t   *testing.T
	in  *json.Encoder
	out *bufio.Scanner
}

// Open starts a DuckDB.
func Open(t *testing.T) *DB {
	t.Helper()
	cmd := npmtest.Command(t, "duckdb", sources, "duckdb.mjs")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 256<<20)
	return &DB{t: t, in: json.NewEncoder(in), out: lines}
}

// Query runs statements and returns the rows of the last one. Values are texts as DuckDB prints them; null is a nil pointer.
func (db *DB) Query(statements string) []map[string]*string {
	db.t.Helper()
	rows, err := db.Try(statements)
	if err != nil {
		db.t.Fatalf("%v in:\n%s", err, statements)
	}
	return rows
}

// Try is Query for statements that may fail.
func (db *DB) Try(statements string) ([]map[string]*string, error) {
	db.t.Helper()
	if err := db.in.Encode(statements); err != nil {
		db.t.Fatal(err)
	}
	if !db.out.Scan() {
		db.t.Fatalf("DuckDB ended: %v", db.out.Err())
	}
	var answer struct {
		Rows  []map[string]*string `json:"rows"`
		Error string               `json:"error"`
	}
	if err := json.Unmarshal(db.out.Bytes(), &answer); err != nil {
		db.t.Fatal(err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("DuckDB: %s", answer.Error)
	}
	return answer.Rows, nil
}
