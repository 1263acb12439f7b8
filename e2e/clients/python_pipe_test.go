//go:build e2e

package clients

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestPythonPipesAcrossCuts is TestPipeAcrossCuts for the Python package, with bytes, lines, dicts, dataclasses and objects of an SDK, behind a native line.
func TestPythonPipesAcrossCuts(t *testing.T) {
	b, w, r := newPython(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.ingestEdge(), w.ingestEdge()}
	const pieces = 200
	first, second := chatStream(pieces, toolCall), chatStream(pieces, done)
	cuts := 0
	for i, form := range []string{"bytes", "lines", "dicts", "dataclasses", "objects"} {
		proxy := newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), uint64(i))), 2_000)
		proxy.cutRequests(len(first))
		proxy.cutAtMost(3)
		mode := []string{"threads", "asyncio"}[i%2]
		if e := b.script(t, "pipe.py", mode, form, proxy.url, form, "r").pipe(r, first); e.Type != "return" || string(e.Status) != `"paused"` {
			t.Fatalf("%s, the first response: %+v", form, e)
		}
		if e := b.script(t, "pipe.py", mode, form, proxy.url, form, "r").pipe(r, second); e.Type != "return" || string(e.Status) != `"ended"` {
			t.Fatalf("%s, the second response: %+v", form, e)
		}
		if got := w.text(form); got != "native "+counted(pieces)+counted(pieces) {
			t.Errorf("%s: the text is %s", form, got)
		}
		w.AwaitStatus(session(form), fold.Ended)
		cuts += proxy.count()
	}
	t.Logf("%d cuts", cuts)
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}

// TestPythonPipeIsContinued kills a program in the middle of a response. Another one sends the response again, and what is stored is skipped.
func TestPythonPipeIsContinued(t *testing.T) {
	b, w, r := newPython(t), newEnv(t), seedtest.Rand(t)
	edge := w.ingestEdge()
	response := chatStream(100, done)
	first := b.script(t, "pipe.py", "threads", "bytes", edge, "s", "r")
	_, err := io.WriteString(first.in, response[:len(response)/2])
	w.must(err)
	w.Await(session("s"), "text while the response is open", func(fold.Snapshot) bool { return strings.HasPrefix(w.text("s"), "native 0 1 2 ") })
	w.must(first.cmd.Process.Kill())
	if e := b.script(t, "pipe.py", "asyncio", "lines", edge, "s", "r").pipe(r, response); e.Type != "return" || string(e.Status) != `"ended"` {
		t.Fatalf("%+v", e)
	}
	if got := w.text("s"); got != "native "+counted(100) {
		t.Errorf("the response is %s", got)
	}
}

// TestPythonPipeIsRefused checks a response of another dialect, and a source that fails in the middle: the run fails, and what was stored remains.
func TestPythonPipeIsRefused(t *testing.T) {
	b, w, r := newPython(t), newEnv(t), seedtest.Rand(t)
	edge := w.ingestEdge()
	for i, tt := range []struct{ form, response, code string }{
		{"bytes", `{"type":"text_delta","delta":"a"}` + "\n", "WRONG_DIALECT"},
		{"dicts", chatStream(5, "data: {no JSON\n\n"), "JSONDecodeError"},
	} {
		for _, mode := range []string{"threads", "asyncio"} {
			id := fmt.Sprintf("%s-%d", mode, i)
			if e := b.script(t, "pipe.py", mode, tt.form, edge, id, "r").pipe(r, tt.response); e.Type != "throw" || e.Code != tt.code {
				t.Errorf("%s: %+v, want %s", id, e, tt.code)
			}
			w.AwaitStatus(session(id), fold.Failed)
		}
	}
}
