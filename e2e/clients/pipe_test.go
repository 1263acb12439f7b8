//go:build e2e

package clients

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// chatStream returns the response of a model in n pieces of text, the number of each of which is its text, and an end.
func chatStream(n int, end string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%d \"}}]}\n\n", i)
	}
	return b.String() + end
}

const (
	toolCall = `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"look_up","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` +
		"\n\ndata: [DONE]\n\n"
	done = "data: [DONE]\n\n" // without a reason, as some servers end
)

// text returns the text of a session.
func (w *env) text(id string) string {
	w.t.Helper()
	var b strings.Builder
	for _, body := range w.Bodies(session(id)) {
		if delta, ok := body.(chunk.TextDelta); ok {
			b.WriteString(delta.Delta)
		}
	}
	return b.String()
}

// counted returns the text of a chatStream.
func counted(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d ", i)
	}
	return b.String()
}

// pipe writes a response in random pieces and returns the result of the program.
func (p *node) pipe(r *rand.Rand, response string) event {
	p.t.Helper()
	for response != "" {
		n := min(1+r.IntN(2_000), len(response))
		if _, err := io.WriteString(p.in, response[:n]); err != nil {
			break // the program has ended, with an error that its last line has
		}
		response = response[n:]
	}
	_ = p.in.Close() // likewise
	return p.until("its end", isLast)[0]
}

// TestPipeAcrossCuts writes two responses of a model through two edges and a proxy that cuts requests and responses at random bytes. Another process writes the
// second one. The log has every chunk once and in order.
func TestPipeAcrossCuts(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.ingestEdge(), w.ingestEdge()}
	const pieces = 400
	first, second := chatStream(pieces, toolCall), chatStream(pieces, done)
	cuts := 0
	for i := range 3 {
		id := fmt.Sprintf("s%d", i)
		proxy := newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), uint64(i))), 2_000)
		proxy.cutRequests(len(first))
		proxy.cutAtMost(3)
		options := map[string]any{"url": proxy.url, "session": id, "runId": "r", "dialect": "openai"}
		if e := b.run(t, "pipe.mjs", options).pipe(r, first); e.Type != "return" || string(e.Status) != `"paused"` {
			t.Fatalf("the first response: %+v", e)
		}
		if got := w.text(id); got != counted(pieces) {
			t.Errorf("the first response is %s", got)
		}
		if e := b.run(t, "pipe.mjs", options).pipe(r, second); e.Type != "return" || string(e.Status) != `"ended"` {
			t.Fatalf("the second response: %+v", e)
		}
		if got := w.text(id); got != counted(pieces)+counted(pieces) {
			t.Errorf("both responses are %s", got)
		}
		if snap := w.AwaitStatus(session(id), fold.Ended); snap.Run.Step != 2 {
			t.Errorf("the run ends at step %d, want 2", snap.Run.Step)
		}
		cuts += proxy.count()
	}
	t.Logf("%d cuts", cuts)
	if cuts == 0 {
		t.Error("nothing was cut")
	}
}

// TestPipeIsContinued kills a program in the middle of a response. Another one sends the response again, and what is stored is skipped.
func TestPipeIsContinued(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	options := map[string]any{"url": w.ingestEdge(), "session": "s", "runId": "r", "dialect": "openai"}
	response := chatStream(100, done)
	first := b.run(t, "pipe.mjs", options)
	if _, err := io.WriteString(first.in, response[:len(response)/2]); err != nil {
		t.Fatal(err)
	}
	w.Await(session("s"), "text while the response is open", func(s fold.Snapshot) bool { return strings.HasPrefix(w.text("s"), "0 1 2 ") })
	w.must(first.cmd.Process.Kill())
	if e := b.run(t, "pipe.mjs", options).pipe(r, response); e.Type != "return" || string(e.Status) != `"ended"` {
		t.Fatalf("%+v", e)
	}
	if got := w.text("s"); got != counted(100) {
		t.Errorf("the response is %s", got)
	}
}

// TestPipeIsRefused checks the errors of a program whose input is no response of the dialect, and of one that was replaced.
func TestPipeIsRefused(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	edge := w.ingestEdge()
	if e := b.run(t, "pipe.mjs", map[string]any{"url": edge, "session": "s1", "dialect": "mastra"}).pipe(r, "data: nothing\n\n"); e.Code != "INVALID_LINE" || e.Retries != 0 {
		t.Errorf("an invalid response: %+v, want INVALID_LINE", e)
	}
	if e := b.run(t, "pipe.mjs", map[string]any{"url": edge, "session": "s2"}).pipe(r, done); !strings.Contains(e.Error, "no dialect") {
		t.Errorf("a run without a dialect: %+v", e)
	}
	replaced := b.run(t, "pipe.mjs", map[string]any{"url": edge, "session": "s3", "dialect": "openai"})
	response := chatStream(100, done)
	if _, err := io.WriteString(replaced.in, response[:len(response)/2]); err != nil {
		t.Fatal(err)
	}
	w.Await(session("s3"), "text while the response is open", func(fold.Snapshot) bool { return w.text("s3") != "" })
	if e := b.run(t, "pipe.mjs", map[string]any{"url": edge, "session": "s3", "dialect": "openai", "takeOver": true}).pipe(r, response); string(e.Status) != `"ended"` {
		t.Errorf("the program that has replaced it: %+v", e)
	}
	if e := replaced.pipe(r, response[len(response)/2:]); e.Code != "FENCED" {
		t.Errorf("the replaced program: %+v, want FENCED", e)
	}
}
