// Package fleet selects the programs that the end-to-end tests run: those of this checkout, or
// programs of two versions at the same time (scripts/mixed.sh).
//
// A variable for each role contains a colon-separated list of programs. Each start of a process
// takes the next program of the list of its role, cyclically; with old:old:new:new two edges
// start as old and restart as new.
package fleet

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Variables of the roles.
const (
	Edge      = "TAILRACE_E2E_EDGE"        // tailrace edge
	Projector = "TAILRACE_E2E_PROJECTOR"   // tailrace projector
	Agent     = "TAILRACE_E2E_AGENT"       // examples/chat/agent
	Worker    = "TAILRACE_E2E_TEST_WORKER" // the test binary of package e2e, which can run a worker
)

var (
	mu     sync.Mutex // guards starts
	starts = make(map[string]int)
)

// Program returns the program of the next process that a test starts for a role: the next one of
// the list in variable, or fallback if the variable is not set. It fails the test if the program
// is missing.
func Program(tb testing.TB, variable, fallback string) string {
	tb.Helper()
	list := filepath.SplitList(os.Getenv(variable))
	if len(list) == 0 {
		list = []string{fallback}
	}
	mu.Lock()
	next := list[starts[variable]%len(list)]
	starts[variable]++
	mu.Unlock()
	path, err := filepath.Abs(next)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil { //nolint:gosec // the environment names the programs
		tb.Fatalf("%v: run `make build` first", err)
	}
	return path
}
