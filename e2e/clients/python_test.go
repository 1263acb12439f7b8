//go:build e2e

package clients

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// python starts an example.
func python(t *testing.T, args ...string) *node {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 not found; `make python` installs it")
	}
	return program(t, "../../examples/python", path, args...)
}

// TestPythonFollowsAcrossCuts is TestFollowAcrossCuts for examples/python/follow.py.
func TestPythonFollowsAcrossCuts(t *testing.T) {
	w, r := newEnv(t), seedtest.Rand(t)
	edges := []string{w.edge(nil, nil), w.edge(nil, nil)}
	random := rand.New(rand.NewPCG(r.Uint64(), 0))
	run := w.start("s")
	_, err := run.Flush(t.Context())
	w.must(err)
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		w.end(run)
		w.writeTree("s", random, 1500)
	})
	for i := range 2 {
		proxy := newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), uint64(i))), 4_000)
		f := python(t, "follow.py", proxy.url, "s")
		var events []event
		for {
			line, ok := f.next()
			if !ok {
				break
			}
			events = append(events, readEvent(t, line))
		}
		if len(events) == 0 {
			t.Fatal("no event")
		}
		w.checkTree("s", events)
		if proxy.count() < 10 {
			t.Errorf("%d cuts, want more", proxy.count())
		}
	}
}

// TestPythonReportsProblems checks what the example says about a session that does not exist.
func TestPythonReportsProblems(t *testing.T) {
	w := newEnv(t)
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 not found; `make python` installs it")
	}
	out, err := exec.CommandContext(t.Context(), path, "../../examples/python/follow.py", w.edge(nil, nil), "none").CombinedOutput()
	if err == nil || fmt.Sprintf("%.4s", out) != "404 " {
		t.Errorf("%v, %s; want the status 404", err, out)
	}
}
