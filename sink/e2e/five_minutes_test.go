// Package e2e has tests of the programs tailrace and tailrace-sink together.
package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/sink/internal/duckdbtest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// notRun are the commands of docs/guides/analytics.md that the test does not run, with the reason.
var notRun = map[string]string{
	"make run":                    "the test has started the same program on free ports",
	"make sink":                   "the test has built the program",
	"duckdb -init lake/views.sql": "the test runs this file and the statements in the library of DuckDB",
}

// TestFiveMinutes does what docs/guides/analytics.md says: it runs the commands of the page, and its statements in DuckDB, in their order. Each statement has rows, with the
// columns that the page shows.
func TestFiveMinutes(t *testing.T) {
	home := t.TempDir()
	began := time.Now()
	build(t, home)
	t.Logf("built in %s", time.Since(began).Round(time.Second))
	began = time.Now()
	up := startTailrace(t, home)

	skipped := map[string]bool{}
	var db *duckdbtest.DB
	blocks := blocksOf(t, "../../docs/guides/analytics.md")
	for i, b := range blocks {
		switch b.language {
		case "json": // it comes before the command that reads it
			if err := os.WriteFile(filepath.Join(home, "prices.json"), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			up.shell(t, b.text, skipped)
		case "sql":
			if db == nil {
				db = open(t, home)
				t.Logf("first statement %s after the start", time.Since(began).Round(time.Millisecond))
			}
			columns := ""
			if i+1 < len(blocks) && blocks[i+1].language == "text" {
				columns, _, _ = strings.Cut(blocks[i+1].text, "\n")
			}
			ask(t, db, b.text, columns)
		}
	}
	t.Logf("all commands and statements %s after the start", time.Since(began).Round(time.Millisecond))
	for command := range notRun {
		if !skipped[command] {
			t.Errorf("docs/guides/analytics.md does not have the command %q any more", command)
		}
	}
}

// build builds the programs.
func build(t *testing.T, home string) {
	t.Helper()
	for name, dir := range map[string]string{"tailrace": "../..", "tailrace-sink": ".."} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(home, "bin", name), "./cmd/"+name)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
}

// tailrace is a process of `tailrace up`.
type tailrace struct {
	home, host string
	env        []string
}

func startTailrace(t *testing.T, home string) *tailrace {
	t.Helper()
	port := strconv.Itoa(natstest.ReservePort(t)) // `tailrace up` does not print a port that its server has chosen
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "bin", "tailrace"), "up", "--data-dir=data", "--listen=127.0.0.1:0", "--nats-port="+port, "--ops-listen=", "--log-level=warn")
	cmd.Dir = home
	cmd.Stderr = t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait() // it was ended by a signal
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, found := strings.Cut(lines.Text(), "Tailrace is running: http://"); found {
			return &tailrace{home: home, host: url, env: append(os.Environ(), "TAILRACE_NATS_URL=nats://127.0.0.1:"+port, "TAILRACE_OPS_LISTEN=")}
		}
	}
	t.Fatal("tailrace ended")
	return nil
}

// shell runs the lines of a script that are not in notRun.
func (p *tailrace) shell(t *testing.T, script string, skipped map[string]bool) {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(script), "\n"), func(line string) bool {
		_, skip := notRun[line]
		if skip {
			skipped[line] = true
		}
		return skip
	})
	if len(lines) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script = strings.ReplaceAll(strings.Join(lines, "\n"), "localhost:4480", p.host)
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir, cmd.Env = p.home, p.env
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v in:\n%s\n%s", err, script, out)
	}
	t.Logf("%s: %s", time.Since(began).Round(time.Millisecond), strings.Join(lines, "\n"))
}

// open reads the lake as `duckdb -init lake/views.sql` does.
func open(t *testing.T, home string) *duckdbtest.DB {
	t.Helper()
	views, err := os.ReadFile(filepath.Join(home, "lake", "views.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db := duckdbtest.Open(t)
	db.Query(string(views))
	return db
}

// ask runs statements, each of which has rows. Columns is the first line of what the page shows of the last one, or empty.
func ask(t *testing.T, db *duckdbtest.DB, statements, columns string) {
	t.Helper()
	for statement := range strings.SplitSeq(strings.TrimSpace(statements), ";\n") {
		began := time.Now()
		rows := db.Query(statement)
		if len(rows) == 0 {
			t.Errorf("no rows come out of: %s", statement)
			continue
		}
		var names []string
		if columns != "" {
			for name := range strings.SplitSeq(columns, "|") {
				names = append(names, strings.TrimSpace(name))
			}
			if len(names) != len(rows[0]) {
				t.Errorf("%d columns come out, the page shows %q", len(rows[0]), names)
			}
		}
		t.Logf("%s: %d rows of: %s", time.Since(began).Round(time.Millisecond), len(rows), statement)
		for _, r := range rows {
			var texts []string
			for _, name := range names {
				v, ok := r[name]
				if !ok {
					t.Errorf("no column %s comes out of: %s", name, statement)
				} else if v != nil {
					texts = append(texts, fmt.Sprintf("%s=%s", name, *v))
				}
			}
			if len(names) > 0 {
				t.Log(strings.Join(texts, " "))
			}
		}
	}
}

// block is a fenced block of a page.
type block struct{ language, text string }

func blocksOf(t *testing.T, path string) (blocks []block) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split("\n"+string(page), "\n```")
	for i := 1; i < len(parts); i += 2 {
		info, text, _ := strings.Cut(parts[i], "\n")
		language, _, _ := strings.Cut(info, " ")
		blocks = append(blocks, block{language, text + "\n"})
	}
	return blocks
}
