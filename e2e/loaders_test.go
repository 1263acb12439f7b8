//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// documentedLoader returns the program in docs/guides/firehose.md with a language, under a heading.
func documentedLoader(t *testing.T, heading, language string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/guides/firehose.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "### "+heading)
	_, rest, _ = strings.Cut(rest, "```"+language+" run=TestLoaders\n")
	program, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatalf("docs/guides/firehose.md has no program under %q", heading)
	}
	path := filepath.Join(t.TempDir(), "loader")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// killingPython runs a program and kills it before the n-th line that it executes.
const killingPython = `
import os, sys
n, at, path = 0, int(sys.argv[1]), sys.argv[2]
def trace(frame, event, arg):
    global n
    if frame.f_code.co_filename != path:
        return None
    if event == "line":
        n += 1
        if n == at:
            os.kill(os.getpid(), 9)
    return trace
program = compile(open(path).read(), path, "exec")
sys.argv = sys.argv[2:]
sys.settrace(trace)
exec(program, {"__name__": "__main__"})
`

// killingShell does the same for a script.
const killingShell = `
n=0 at=$1 path=$2
shift 2
trap 'n=$((n+1)); if [ $n = $at ]; then kill -9 $$; fi' DEBUG
. "$path"
`

// TestLoaders runs the loaders of docs/guides/firehose.md, and kills each before every line that it executes: what it has stored in the end is every record once.
func TestLoaders(t *testing.T) {
	t.Parallel()
	const total = 3
	server := streamtest.Start(t)
	url := fmt.Sprint("--nats-url=", server.URL)
	publish := exec.CommandContext(t.Context(), binary(t), "publish", "--session", "s", url)
	publish.Stdin = strings.NewReader(strings.Repeat(`{"type":"custom","agentId":"a","agentType":"t","timestamp":1,"step":0,"eventName":"n","data":1}`+"\n", total-2))
	if out, err := publish.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, loader := range []struct {
		heading, language string
		command           func(at int, path, store string) string
		stored            func(t *testing.T, store string) []string
	}{
		{"A loader in Python", "python", func(at int, path, store string) string {
			return fmt.Sprintf("exec python3 -c '%s' %d %s %s/db", killingPython, at, path, store)
		}, storedBySQLite},
		{"A loader in shell", "sh", func(at int, path, store string) string {
			return fmt.Sprintf("exec bash -T -c '%s' loader %d %s %s", strings.ReplaceAll(killingShell, "'", `'\''`), at, path, store)
		}, storedInFiles},
	} {
		t.Run(loader.language, func(t *testing.T) {
			t.Parallel() // the starts of processes are most of it
			path := documentedLoader(t, loader.heading, loader.language)
			kills := 0
			for killed := true; killed; {
				store, durable := t.TempDir(), fmt.Sprint(loader.language, kills)
				firehose := func(at int) (ended chan error, stop func()) {
					cmd := exec.CommandContext(t.Context(), binary(t), "firehose", "--from-start", "--durable", durable, url,
						"--exec", loader.command(at, path, store))
					cmd.Stderr = t.Output()
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					ended = make(chan error, 1)
					go func() { ended <- cmd.Wait() }()
					return ended, func() { _ = cmd.Process.Signal(syscall.SIGTERM) } // it may have ended
				}
				ended, stop := firehose(kills + 1)
				natstest.Eventually(t, "the end of the loader, or all records", func(context.Context) error {
					select {
					case err := <-ended:
						killed = err != nil
						ended <- err
						return nil
					default:
					}
					if n := len(loader.stored(t, store)); n < total {
						return fmt.Errorf("%d of %d records", n, total)
					}
					killed = false
					return nil
				})
				stop()
				if err := <-ended; err != nil {
					killed = true
				}
				kills++
				if confirmed(t, server, durable) != nil {
					ended, stop = firehose(0)
					natstest.Eventually(t, "all confirmations", func(context.Context) error { return confirmed(t, server, durable) })
					stop()
					if err := <-ended; err != nil {
						t.Fatalf("after a signal: %v", err)
					}
				}
				if n := len(loader.stored(t, store)); n != total {
					t.Fatalf("killed before line %d: %d of %d records", kills, n, total)
				}
				for i, line := range loader.stored(t, store) {
					if !strings.Contains(line, fmt.Sprintf("default %d", i+1)) {
						t.Errorf("killed before line %d: record %d is %s", kills, i+1, line)
					}
				}
			}
			t.Logf("killed before each of %d lines", kills-1)
			if kills < 20 {
				t.Errorf("the loader has executed %d lines", kills-1)
			}
		})
	}
}

// confirmed returns an error unless all records of a durable firehose are acknowledged.
func confirmed(t *testing.T, server *natstest.Server, durable string) error {
	t.Helper()
	c, err := server.JetStream(t).Consumer(t.Context(), "TR_CHUNKS_0", durable)
	if err != nil {
		return err
	}
	if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
		return fmt.Errorf("%d records not delivered, %d not confirmed", info.NumPending, info.NumAckPending)
	}
	return nil
}

// storedBySQLite returns tenant and ordinal of the records, in their order.
func storedBySQLite(t *testing.T, store string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(store, "db")); err != nil {
		return nil
	}
	out, err := exec.CommandContext(t.Context(), "python3", "-c", `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'records'").fetchall():
    for row in db.execute("SELECT tenant, ordinal FROM records ORDER BY ordinal"):
        print(*row)
`, filepath.Join(store, "db")).Output()
	if err != nil {
		return nil // it is locked by the loader
	}
	return slices.Collect(strings.Lines(string(out)))
}

func storedInFiles(t *testing.T, store string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(store, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var line struct {
			Tenant  string `json:"tenant"`
			Ordinal int    `json:"ordinal"`
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines = append(lines, fmt.Sprintln(line.Tenant, line.Ordinal))
	}
	return lines
}
