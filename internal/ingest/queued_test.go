package ingest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

const runS1 = "/v1/sessions/s1/runs/r1"

// enqueue stores a message that waits for the end of the run of s1.
func (w *env) enqueue() {
	w.t.Helper()
	c := control.Command{
		Kind: control.Execute, Mode: control.ModeQueued, Session: chunk.RootSession(tenant, "s1"), AgentType: "support", RunID: "r2",
		Input: []chunk.InputMessage{{Content: "And the bill?"}}, Issued: time.Now(),
	}
	if err := w.Inbox.Enqueue(w.t.Context(), control.Queued{Command: c, State: control.QueuedWaiting}); err != nil {
		w.t.Fatal(err)
	}
}

// requested returns the run that a worker would start, "" for none.
func (w *env) requested() string {
	w.t.Helper()
	c, _, err := w.Queue.Pending(w.t.Context(), chunk.RootSession(tenant, "s1"), "support")
	if err != nil && !errors.Is(err, control.ErrNoCommand) {
		w.t.Fatal(err)
	}
	return c.RunID
}

// runEnds has the ways in which a client ends its run.
var runEnds = map[string]func(*env) (answer, error){
	"end": func(w *env) (answer, error) { return w.post(runS1+"/end?epoch=1", "application/json", "{}") },
	"fail": func(w *env) (answer, error) {
		return w.post(runS1+"/fail?epoch=1", "application/json", `{"error":"no"}`)
	},
	"line": func(w *env) (answer, error) {
		return w.post(chunksS1+"&firstLine=1", "application/x-ndjson", `{"type":"stream_end"}`)
	},
	"failure": func(w *env) (answer, error) {
		return w.post(chunksS1+"&firstLine=1", "application/x-ndjson", `{"type":"stream_failed","error":"no"}`)
	},
	"dialect": func(w *env) (answer, error) {
		const answered = `data: {"type":"start"}

data: {"type":"finish"}

data: [DONE]

`
		return w.post(chunksS1+"&firstLine=1&dialect=aisdk", "text/event-stream", answered)
	},
	"event": func(w *env) (answer, error) {
		return w.post(runS1+"/events?epoch=1", mediaEvent, `{"specversion":"1.0","id":"1","source":"a","type":"stream_end","data":{}}`)
	},
}

func (w *env) post(path, media, body string) (answer, error) {
	return w.edges[0].send(w.t.Context(), http.MethodPost, path, media, strings.NewReader(body))
}

// A message waits for a run that came over ingest, and no page is open: the edge that ends the run requests that of the message, before the response. A pause
// is no end. The edge may die between the end and the request: the client, which got no response, repeats its request.
func TestEndStartsWhatWaits(t *testing.T) {
	for name, ends := range runEnds {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, nil)
			w.open(openS1)
			w.enqueue()
			if a, err := w.post(runS1+"/pause?epoch=1", "application/json", "{}"); err != nil || a.status != http.StatusOK || w.requested() != "" {
				t.Fatal("after a pause:", a, a.body, err)
			}
			if a, err := ends(w); err != nil || a.status != http.StatusOK {
				t.Fatal(a, a.body, err)
			}
			if run := w.requested(); run != "r2" {
				t.Errorf("run %q is requested, want that of the message", run)
			}
			if all, err := w.Inbox.Queued(t.Context(), chunk.RootSession(tenant, "s1")); err != nil || all[0].State != control.QueuedStarted {
				t.Errorf("the message is %+v, %v", all, err)
			}
		})
		t.Run(name+", the edge dies", func(t *testing.T) {
			w := newEnv(t, func(c *envConfig) { c.dies = true })
			w.open(openS1)
			w.enqueue()
			if a, err := ends(w); err == nil {
				t.Fatal("the edge has not died:", a, a.body)
			}
			if run := w.requested(); run != "" {
				t.Fatalf("%s is requested", run)
			}
			w.edges = []edge{w.newEdge(envConfig{edge: w.config})}
			if a, err := ends(w); err != nil || a.status != http.StatusOK {
				t.Fatal(a, a.body, err)
			}
			if run := w.requested(); run != "r2" {
				t.Errorf("run %q is requested after the repetition, want that of the message", run)
			}
		})
	}
}
