//go:build e2e

package agui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/e2e/dialects/npm"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/workers"
)

// edge is an edge with a worker, whose agent does what the message of the user names.
type edge struct {
	t       *testing.T
	url     string
	release chan struct{} // continues the agent of "wait"
}

func newEdge(t *testing.T) *edge {
	t.Helper()
	s := stack.Start(t, stack.Options{})
	e := &edge{t: t, release: make(chan struct{})}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	clients := stack.NewClients(t, s.NewProcess(natsauth.Edge).JS)
	logic, err := runs.New(clients.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"actor"}, Log: log}})
	must(err)
	form := aisdk.Options{ClientTool: func(name string) bool { return name == "browser" }}
	front, err := httpedge.New(clients.Log, clients.Reader, httpedge.Config{Authenticator: authtest.None(t, "acme"), AISDK: form, Log: log})
	must(err)
	_, err = chat.New(front, logic, chat.Config{Dialect: form})
	must(err)
	e.url = s.Serve(front, front.Run).URL
	p := s.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{
		Agents: map[string]workers.Agent{"actor": workers.AgentFunc(e.answer)}, ShutdownTimeout: workers.Off, RetryDelay: 20 * time.Millisecond, Pace: time.Millisecond, Log: log,
	})
	must(err)
	t.Cleanup(func() {
		if err := worker.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Go(worker.Run)
	return e
}

// answer is the agent.
func (e *edge) answer(ctx context.Context, turn *workers.Turn) error {
	in := turn.Input()
	words := in[len(in)-1].Content
	first := turn.Steps() == 0
	return turn.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		switch {
		case words == "fail":
			return errors.Join(step.Text(ctx, "Well"), &workers.Error{Message: "the model is tired", Code: "provider_overloaded"})
		case words == "wait":
			if err := step.Text(ctx, "Hel"); err != nil {
				return err
			}
			select {
			case <-e.release:
			case <-ctx.Done():
				return ctx.Err()
			}
			step.MarkFinal()
			return step.Text(ctx, "lo")
		case words == "where" && first:
			return errors.Join(step.Text(ctx, "Let me look."), step.ClientTool("c1", "browser").AskClient(ctx, map[string]any{"exact": true}, time.Time{}))
		case words == "delete" && first:
			return errors.Join(step.Text(ctx, "Shall I?"), step.Tool("c1", "delete").AskApproval(ctx, map[string]any{"all": true}, time.Time{}))
		case words == "work" && first:
			return work(ctx, step)
		}
		for _, call := range step.ApprovedCalls() {
			if err := call.End(ctx, map[string]any{"deleted": 3}); err != nil {
				return err
			}
		}
		step.MarkFinal()
		return step.Text(ctx, "Done: "+words)
	})
}

// work is a step with every kind of output that messages and states have.
func work(ctx context.Context, step *workers.Step) error {
	search := step.Tool("c0", "search")
	return errors.Join(
		step.Think(ctx, "hm"), step.Think(ctx, ", yes"), step.Emit(ctx, chunk.Thinking{IsComplete: true}), step.Text(ctx, "Let me "), step.Text(ctx, "search."),
		search.Args(ctx, `{"q":`), search.Args(ctx, `"x"}`), search.Start(ctx, map[string]any{"q": "x"}), search.End(ctx, []int{1, 2}),
		step.SetState(ctx, map[string]any{"found": 2}), step.Emit(ctx, chunk.File{URL: "https://f.test/a.png", MediaType: "image/png"}),
		step.Custom(ctx, "progress", map[string]any{"done": 3}), step.Text(ctx, "Found."),
	)
}

// same fails the test unless the client has the messages and the state of the edge's snapshot. The client gave its own ids to the results of the tools that it ran.
func (e *edge) same(t *testing.T, id string, v result) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.url+"/v1/sessions/"+id+"/snapshot?dialect=agui&partial=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %s", resp.StatusCode, err, text)
	}
	var want struct {
		Messages []map[string]any `json:"messages"`
		State    any              `json:"state"`
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(v.Messages, want.Messages) {
		if m["role"] == "tool" {
			delete(m, "id")
		}
	}
	if got, want := npm.AGUIMessages(v.Messages), npm.AGUIMessages(want.Messages); got != want || got == "" {
		t.Errorf("the client has\n%s\nthe snapshot\n%s", got, want)
	}
	if !reflect.DeepEqual(v.State, want.State) {
		t.Errorf("the client has the state %v, the snapshot %v", v.State, want.State)
	}
}

// ask runs calls of a client of the edge in a thread, and fails the test if the client rejects an event or logs one that it changed.
func (e *edge) ask(t *testing.T, id string, calls ...call) result {
	t.Helper()
	return e.continued(t, thread{ThreadID: id, Calls: calls})
}

func (e *edge) continued(t *testing.T, r thread) result {
	t.Helper()
	r.URL = e.url + "/api/agui"
	v := ask(t, r)
	for i, c := range v.Calls {
		if c.Error != nil {
			t.Fatalf("call %d: %s", i, *c.Error)
		}
	}
	if len(v.Logged) > 0 {
		t.Errorf("the client logs %q", v.Logged)
	}
	return v
}

func (c outcome) ends() string {
	switch {
	case c.Failed != nil:
		return "failed: " + *c.Failed
	case c.Outcome == nil:
		return "cut"
	}
	return c.Outcome.Type
}

func endsAre(t *testing.T, v result, want ...string) {
	t.Helper()
	var got []string
	for _, c := range v.Calls {
		got = append(got, c.ends())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the calls end with %q, want %q", got, want)
	}
}

func text(v result) string {
	last := v.Messages[len(v.Messages)-1]
	return fmt.Sprint(last["content"])
}

// TestEdge runs the client against an edge and a worker.
func TestEdge(t *testing.T) {
	e := newEdge(t)
	browser := []json.RawMessage{raw(`{"name":"browser","description":"asks the page","parameters":{"type":"object"}}`)}
	decide := func(payload string) []json.RawMessage {
		return []json.RawMessage{raw(`{"interruptId":"$pending","status":"resolved","payload":%s}`, payload)}
	}

	t.Run("run", func(t *testing.T) {
		v := e.ask(t, "run", call{Say: new("work")})
		endsAre(t, v, "success")
		e.same(t, "run", v)
		if fmt.Sprint(v.State) != "map[found:2]" || len(v.Messages) < 6 {
			t.Errorf("state %v, messages %v", v.State, v.Messages)
		}
	})
	t.Run("two runs", func(t *testing.T) {
		v := e.ask(t, "two", call{Say: new("work")}, call{Say: new("hi")})
		endsAre(t, v, "success", "success")
		e.same(t, "two", v)
	})
	t.Run("tool of the client", func(t *testing.T) {
		v := e.ask(t, "tool", call{Say: new("where"), Tools: browser}, call{Tools: browser, Results: []json.RawMessage{raw(`{"toolCallId":"c1","content":"{\"place\":\"Bern\"}"}`)}})
		endsAre(t, v, "success", "success")
		if got := v.Calls[0].Outcome.PendingToolCallIDs; !slices.Equal(got, []string{"c1"}) {
			t.Errorf("the client is asked to run %q", got)
		}
		e.same(t, "tool", v)
		if text(v) != "Done: where" {
			t.Errorf("the last message is %q", text(v))
		}
	})
	for name, tt := range map[string]struct{ payload, content string }{
		"approved": {`{"approved":true,"reason":"sure"}`, `{"deleted":3}`}, "denied": {`{"approved":false,"reason":"never"}`, "call denied: never"},
	} {
		t.Run(name, func(t *testing.T) {
			v := e.ask(t, name, call{Say: new("delete")}, call{Resume: decide(tt.payload)})
			endsAre(t, v, "interrupt", "success")
			if n := len(v.Calls[0].Interrupts); n != 1 || len(v.Calls[1].Interrupts) > 0 {
				t.Errorf("%d interrupts, and %v after the answer", n, v.Calls[1].Interrupts)
			}
			e.same(t, name, v)
			if text(v) != "Done: delete" || !slices.ContainsFunc(v.Messages, func(m map[string]any) bool { return m["role"] == "tool" && m["content"] == tt.content }) {
				t.Errorf("messages %v", v.Messages)
			}
		})
	}
	t.Run("cancelled interrupt", func(t *testing.T) {
		v := e.ask(t, "cancelled", call{Say: new("delete")}, call{Resume: []json.RawMessage{raw(`{"interruptId":"$pending","status":"cancelled"}`)}})
		endsAre(t, v, "interrupt", "success")
		e.same(t, "cancelled", v)
	})
	t.Run("message instead of an answer", func(t *testing.T) {
		v := e.ask(t, "instead", call{Say: new("delete"), Clear: true}, call{Say: new("hi")})
		endsAre(t, v, "interrupt", "success")
		e.same(t, "instead", v)
	})
	t.Run("error", func(t *testing.T) {
		v := e.ask(t, "error", call{Say: new("fail")}, call{Say: new("hi")})
		endsAre(t, v, "failed: the model is tired", "success")
		e.same(t, "error", v)
	})
	t.Run("stop", func(t *testing.T) {
		v := e.ask(t, "stop", call{Say: new("wait"), StopAt: "TEXT_MESSAGE_CONTENT"}, call{Say: new("hi")})
		endsAre(t, v, "cancelled", "success")
		e.same(t, "stop", v)
	})
	t.Run("abort", func(t *testing.T) {
		first := e.ask(t, "abort", call{Say: new("wait"), AbortAt: "TEXT_MESSAGE_CONTENT"})
		messages, err := json.Marshal(first.Messages)
		if err != nil {
			t.Fatal(err)
		}
		close(e.release)
		v := e.continued(t, thread{ThreadID: "abort", Cursor: first.Cursor, Messages: messages, Calls: []call{{Reconnect: true}}})
		endsAre(t, v, "success")
		e.same(t, "abort", v)
		if text(v) != "Hello" {
			t.Errorf("the last message is %q", text(v))
		}
	})
}

// TestEdgeCut breaks the connection after each record of a run. The client continues it with the header Last-Event-ID, or with the cursor in the body.
func TestEdgeCut(t *testing.T) {
	e := newEdge(t)
	reconnects := map[string]call{"header": {Reconnect: true}, "body": {Props: raw(`{"lastEventId":"$cursor"}`)}}
	for name, reconnect := range reconnects {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				id := fmt.Sprintf("%s-%d", name, n)
				v := e.ask(t, id, call{Say: new("work"), CutAfter: n}, reconnect)
				if v.Calls[0].Outcome != nil {
					if n < 15 {
						t.Errorf("the response has %d ids", n-1)
					}
					return
				}
				endsAre(t, v, "cut", "success")
				if !bytes.Contains(v.Calls[1].Sent.Body, []byte(`"role":"user"`)) {
					t.Fatalf("the client sent %s", v.Calls[1].Sent.Body)
				}
				e.same(t, id, v)
				if t.Failed() {
					t.Fatalf("cut after %d", n)
				}
			}
		})
	}
}
