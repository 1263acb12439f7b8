// Package duckdbtest runs SQL in DuckDB for tests. DuckDB comes from npm, as the lock file of this directory names it; it is installed once into .tools.
package duckdbtest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const installTimeout = 5 * time.Minute

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
	home, err := install()
	if err != nil {
		t.Fatal(err)
	}
	node, err := node()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(home, "duckdb.mjs")) //nolint:gosec // the script of this package
	cmd.Stderr = os.Stderr
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

// root returns the directory of the repository. Go runs tests in the directory of their package, which is below it.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "node.sh")); err == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("scripts/node.sh is not above the working directory: %w", err)
}

// node returns the path of the Node.js of the tests.
var node = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	dir, err := root()
	if err != nil {
		return "", err
	}
	script := exec.CommandContext(ctx, filepath.Join(dir, "scripts", "node.sh")) //nolint:gosec // the script of this repository
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node.sh: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// install installs the packages of the lock file and returns their directory. An existing directory is used as it is: its name contains the hash of the sources,
// and an incomplete installation never has this name.
var install = sync.OnceValues(func() (string, error) {
	node, err := node()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json", "duckdb.mjs"} {
		data, err := sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		sum.Write(data)
		files[name] = data
	}
	dir, err := root()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(dir, ".tools")
	home := filepath.Join(tools, fmt.Sprintf("duckdb-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	if err := os.MkdirAll(tools, 0o750); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, "duckdb-half-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(half) }()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(half, name), data, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = half
	npm.Env = append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci of DuckDB (it needs the npm registry): %w\n%s", err, out)
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			return "", err
		}
	}
	return home, nil
})
