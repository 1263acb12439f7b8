//go:build e2e

package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/ingest"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// ingestEdge serves an edge through which runs are written.
func (w *env) ingestEdge() string {
	w.t.Helper()
	clients := stack.NewClients(w.t, w.NewProcess(natsauth.Edge).JS)
	producer, err := producers.New(clients.JS, producers.Config{Positions: producers.NoPositions})
	w.must(err)
	w.t.Cleanup(func() { _ = producer.Close() }) // the last requests of a test may be cut
	edge, err := httpedge.New(clients.Log, clients.Reader, httpedge.Config{
		Authenticator: authtest.None(w.t, tenant), Log: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	w.must(err)
	_, err = ingest.New(edge, jsingest.New(producer, dialects.NewTranslator), ingest.Config{})
	w.must(err)
	return w.Serve(edge, edge.Run).URL
}

// send writes a command for publish.mjs.
func (p *node) send(command any) {
	p.t.Helper()
	line, err := json.Marshal(command)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// notes returns the numbers of the notes in a session, in order.
func (w *env) notes(id string) (all []int) {
	w.t.Helper()
	for _, b := range w.Bodies(session(id)) {
		if b, ok := b.(chunk.Custom); ok {
			var n int
			w.must(json.Unmarshal(b.Data, &n))
			all = append(all, n)
		}
	}
	return all
}

// checkNotes checks that a session has the notes 0 to n-1, each once and in order.
func (w *env) checkNotes(id string, n int) {
	w.t.Helper()
	notes := w.notes(id)
	for i := range max(n, len(notes)) {
		if i >= len(notes) || i >= n || notes[i] != i {
			w.t.Fatalf("%s has %d notes, want %d; the first difference is note %d", id, len(notes), n, i)
		}
	}
}

func note(i int) map[string]any {
	return map[string]any{"chunk": map[string]any{"type": "custom", "eventName": "note", "data": i}}
}

func isLast(e event) bool { return e.Type == "return" || e.Type == "throw" }

// TestPublishAcrossCuts writes runs through two edges and a proxy that cuts requests and responses at random bytes: the log has every chunk once and in order.
func TestPublishAcrossCuts(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	edges := []string{w.ingestEdge(), w.ingestEdge()}
	const sessions, notes = 4, 800
	var proxies []*cutter
	var writers []*node
	for i := range sessions {
		proxies = append(proxies, newCutter(t, edges, rand.New(rand.NewPCG(r.Uint64(), uint64(i))), 2_000))
		proxies[i].cutRequests(8_000)
		writers = append(writers, b.run(t, "publish.mjs", map[string]any{"url": proxies[i].url, "session": fmt.Sprintf("s%d", i), "maxPending": 2_000}))
	}
	var writing sync.WaitGroup
	for _, p := range writers {
		writing.Go(func() {
			for i := range notes {
				p.send(note(i))
			}
			p.send(map[string]any{"end": map[string]any{"ok": true}})
			_ = p.in.Close()
		})
	}
	defer writing.Wait()
	cuts := 0
	for i, p := range writers {
		events := p.until("its end", isLast)
		if last := events[len(events)-1]; last.Type != "return" {
			t.Fatalf("%+v", last)
		}
		w.checkNotes(fmt.Sprintf("s%d", i), notes)
		cuts += proxies[i].count()
	}
	t.Logf("%d cuts", cuts)
	if cuts < 3*sessions {
		t.Errorf("%d cuts, want more", cuts)
	}
}

// TestMinute runs the first example of the README.
func TestMinute(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	readme, err := os.ReadFile(filepath.Join(source, "README.md"))
	w.must(err)
	_, rest, ok := strings.Cut(string(readme), "// minute.mjs\n")
	code, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 || !strings.Contains(code, "http://127.0.0.1:4480") {
		t.Fatal("the README has no minute.mjs for the default port")
	}
	path := filepath.Join(b.dir, "minute.mjs")
	w.must(os.WriteFile(path, []byte(strings.ReplaceAll(code, "http://127.0.0.1:4480", w.ingestEdge())), 0o600))
	run := exec.CommandContext(t.Context(), b.node, path)
	if out, err := run.CombinedOutput(); err != nil || string(out) != "It is in Oslo.\n" {
		t.Errorf("%v, %s", err, out)
	}
}

// TestPublishIsContinued kills a writer. Another process with the same run id learns how many chunks are stored, and continues after them.
func TestPublishIsContinued(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	options := map[string]any{"url": w.ingestEdge(), "session": "s", "runId": "r"}
	first := b.run(t, "publish.mjs", options)
	for i := range 10 {
		first.send(note(i))
	}
	first.send(map[string]any{"flush": true})
	first.until("the flush", func(e event) bool { return e.Type == "flush" })
	w.must(first.cmd.Process.Kill())
	second := b.run(t, "publish.mjs", options)
	opened := second.until("the open", func(e event) bool { return e.Type == "open" })[0]
	if opened.Sequence != 10 {
		t.Errorf("%d chunks are said to be stored, want 10", opened.Sequence)
	}
	for i := int(opened.Sequence); i < 20; i++ {
		second.send(note(i))
	}
	second.send(map[string]any{"end": map[string]any{}})
	_ = second.in.Close()
	if last := second.until("its end", isLast); last[len(last)-1].Type != "return" {
		t.Fatalf("%+v", last)
	}
	w.checkNotes("s", 20)
}

// TestPublishIsRefused checks the errors of a writer: another run is open, another writer has replaced it, a chunk is invalid.
func TestPublishIsRefused(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	edge := w.ingestEdge()
	first := b.run(t, "publish.mjs", map[string]any{"url": edge, "session": "s"})
	first.send(note(0))
	first.send(map[string]any{"flush": true})
	first.until("the flush", func(e event) bool { return e.Type == "flush" })
	if e := b.run(t, "publish.mjs", map[string]any{"url": edge, "session": "s"}).until("its end", isLast)[0]; e.Code != "RUN_OPEN" || e.Retries != 0 {
		t.Errorf("a second writer: %+v, want RUN_OPEN", e)
	}
	second := b.run(t, "publish.mjs", map[string]any{"url": edge, "session": "s", "takeOver": true})
	second.until("the open", func(e event) bool { return e.Type == "open" })
	first.send(note(99))
	first.send(map[string]any{"flush": true})
	if all := first.until("its end", isLast); all[0].Code != "FENCED" {
		t.Errorf("the replaced writer: %+v, want FENCED", all)
	}
	second.send(note(1))
	second.send(map[string]any{"chunk": map[string]any{"type": "text_delta", "delta": 5}})
	second.send(map[string]any{"flush": true})
	if all := second.until("its end", isLast); all[0].Code != "INVALID_LINE" {
		t.Errorf("a writer of an invalid chunk: %+v, want INVALID_LINE", all)
	}
	w.checkNotes("s", 2)
}

// TestOpenAIStream writes the stream of a model as it is, with its framing. The run waits for the tool that the model has called.
func TestOpenAIStream(t *testing.T) {
	w := newEnv(t)
	edge := w.ingestEdge()
	post := func(path, media, body string) (last map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, edge+path, strings.NewReader(body))
		w.must(err)
		req.Header.Set("Content-Type", media)
		res, err := http.DefaultClient.Do(req)
		w.must(err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		w.must(err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		w.must(json.Unmarshal([]byte(lines[len(lines)-1]), &last))
		return last
	}
	opened := post("/v1/sessions/s/runs", "application/json", `{"runId":"r","agentType":"clerk","input":[{"content":"question"}]}`)
	last := post(fmt.Sprintf("/v1/sessions/s/runs/r/chunks?dialect=openai&epoch=%v", opened["epoch"]), "text/event-stream", `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"Looking."},"finish_reason":null}]}

data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"look_up","arguments":"{\"id\":1}"}}]},"finish_reason":"tool_calls"}]}

data: {"id":"1","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":8}}

data: [DONE]

`)
	if last["done"] != true {
		t.Fatalf("%v", last)
	}
	snap := w.AwaitStatus(session("s"), fold.Paused)
	if len(snap.Pending) != 1 || snap.Pending[0].CallID != "c1" || snap.Usage.Input != 20 || !strings.Contains(stack.Conversation(snap), "Looking.") {
		t.Errorf("%s\nwaits for %+v, usage %+v", stack.Conversation(snap), snap.Pending, snap.Usage)
	}
}
