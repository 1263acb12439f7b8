//go:build e2e

package agui

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	dialect "github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/e2e/dialects/npm"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/projector/fold"
)

// server serves one session to the client, with the functions that a route needs: ParseRunInput, a Writer, Resume and Omit. Its agent is a function that writes the
// records of a run.
type server struct {
	t     *testing.T
	agent func(s *server, in dialect.RunInput)

	mu     sync.Mutex // guards the fields below: one request at a time
	log    []chunk.Record
	breaks int // the number of frames after which the next response breaks, 0 for never
	inputs []dialect.RunInput
}

var session = chunk.RootSession("acme", "s1")

func (s *server) write(bodies ...chunk.Body) {
	for _, b := range bodies {
		n := len(s.log) + 1
		epoch := chunk.Epoch(1)
		if n > 1 {
			epoch = s.log[n-2].Epoch
		}
		if run, ok := b.(chunk.RunStarted); ok {
			epoch++
			run.Epoch = int64(epoch)
			b = run
		}
		c := chunk.Chunk{AgentID: "s1", AgentType: "agent", Timestamp: 1, Step: 1, Body: b}
		data, err := c.AppendJSON(nil)
		if err != nil {
			s.t.Errorf("%T: %v", b, err)
			return
		}
		s.log = append(s.log, chunk.Record{
			Seq: chunk.Seq(10 * n), Session: session, Epoch: epoch, Ordinal: chunk.Ordinal(n), Type: c.Type(), StoredAt: time.UnixMilli(int64(n)), Data: data,
		})
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	in, err := dialect.ParseRunInput(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.inputs = append(s.inputs, in)
	from := len(s.log)
	if in.Cursor.Seq > 0 {
		from = 1 + slices.IndexFunc(s.log, func(rec chunk.Record) bool { return rec.Cursor() == in.Cursor })
	} else {
		s.agent(s, in)
	}
	of := turns(s.t, s.log)
	now := of[len(of)-1]
	var opt dialect.Options
	for _, res := range in.Results {
		opt.Omit = append(opt.Omit, res.CallID)
	}
	writer := primed(s.log[now.first:max(now.first, from)], now.id, opt)
	var frames []byte
	if from > now.first {
		frames = writer.Resume(frames)
	}
	for _, rec := range s.log[max(now.first, from):] {
		frames = writer.Append(frames, rec)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if n := s.breaks; n > 0 {
		s.breaks = 0
		all := strings.SplitAfter(string(frames), "\n\n")
		frames = []byte(strings.Join(all[:min(n, len(all))], ""))
		_, _ = w.Write(frames) // the connection breaks anyway
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	if _, err := w.Write(frames); err != nil {
		s.t.Log(err)
	}
}

func (s *server) start(t *testing.T) string {
	t.Helper()
	s.t = t
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv.URL
}

// sameMessages compares the messages of the client with those of the snapshot. The client gave its own ids to the results of the tools that it ran.
func (s *server) sameMessages(t *testing.T, v result) {
	t.Helper()
	var want struct {
		Messages []map[string]any `json:"messages"`
		State    any              `json:"state"`
	}
	if err := json.Unmarshal(dialect.AppendContent(nil, folded(t, s.log).Content(true)), &want); err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]map[string]any{v.Messages, want.Messages} {
		for _, m := range list {
			if m["role"] == "tool" {
				delete(m, "id")
			}
		}
	}
	if got, want := npm.AGUIMessages(v.Messages), npm.AGUIMessages(want.Messages); got != want {
		t.Errorf("the client has\n%s\nthe snapshot\n%s", got, want)
	}
	if got, want := fmt.Sprint(v.State), fmt.Sprint(want.State); got != want {
		t.Errorf("the client has the state %s, the snapshot %s", got, want)
	}
}

func raw(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// TestConversation runs an agent that calls a tool of the front end and asks for an approval: the run ends with an interrupt, the client runs the tool, and both
// answers resume the run.
func TestConversation(t *testing.T) {
	s := &server{agent: func(s *server, in dialect.RunInput) {
		if len(in.Messages) > 0 {
			s.write(chunk.RunStarted{RunID: "run-1", Mode: "execute", Input: in.Messages}, chunk.StepStart{},
				chunk.Thinking{Content: "hm"}, chunk.TextDelta{Delta: "Let me "}, chunk.TextDelta{Delta: "look."},
				chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "replace", Path: "", Value: new(chunk.Value(`{"place":null}`))}}},
				chunk.ToolStart{ToolCallID: "c1", ToolName: "browser", Arguments: chunk.Value(`{"what":"place"}`)},
				chunk.ToolStart{ToolCallID: "c2", ToolName: "delete", Arguments: chunk.Value(`{"n":1}`)},
				chunk.ToolApprovalRequest{ToolCallID: "c2", ToolName: "delete", ApprovalID: "run-1::c2", Input: chunk.Value(`{"n":1}`)},
				chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "3", OutputTokens: "4"}}, chunk.StreamPaused{})
			return
		}
		s.write(chunk.RunStarted{RunID: "run-2", Mode: "with_confirmation"})
		for _, r := range in.Results {
			s.write(chunk.ToolEnd{ToolCallID: r.CallID, ToolName: "browser", Result: r.Result, Error: r.Error})
		}
		for _, a := range in.Resume {
			approved, reason, ok := a.Approval()
			if !ok {
				s.t.Errorf("no decision: %+v", a)
			}
			s.write(chunk.ToolApprovalResponse{ToolCallID: "c2", ToolName: "delete", ApprovalID: a.InterruptID, Approved: approved, Reason: &reason})
		}
		s.write(chunk.ToolEnd{ToolCallID: "c2", ToolName: "delete", Result: chunk.Value(`{"deleted":1}`), ProviderExecuted: new(true)},
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/place", Value: new(chunk.Value(`"Bern"`))}}},
			chunk.TextDelta{Delta: "Done."}, chunk.StreamEnd{StreamID: "s1", FinalOutput: new(chunk.Value(`{"ok":true}`))})
	}}
	v := ask(t, thread{URL: s.start(t), Calls: []call{
		{Say: new("Where am I?"), Tools: []json.RawMessage{raw(`{"name":"browser","description":"asks the page","parameters":{"type":"object"}}`)}},
		{
			Results: []json.RawMessage{raw(`{"toolCallId":"c1","content":"{\"place\":\"Bern\"}"}`)},
			Resume:  []json.RawMessage{raw(`{"interruptId":"run-1::c2","status":"resolved","payload":{"approved":true,"reason":"sure"}}`)},
		},
	}})
	for i, c := range v.Calls {
		if c.Error != nil || c.Failed != nil {
			t.Fatalf("call %d: %v, %v", i, c.Error, c.Failed)
		}
	}
	if len(v.Logged) > 0 {
		t.Errorf("the client says %q", v.Logged)
	}
	first, second := v.Calls[0], v.Calls[1]
	if first.Sent.Accept != "text/event-stream" || first.Sent.Method != http.MethodPost {
		t.Errorf("%s with Accept %q", first.Sent.Method, first.Sent.Accept)
	}
	if len(first.Interrupts) != 1 || first.Interrupts[0]["id"] != "run-1::c2" || first.Interrupts[0]["toolCallId"] != "c2" || first.Outcome.Type != "interrupt" {
		t.Errorf("interrupts %v", first.Interrupts)
	}
	if len(second.Interrupts) != 0 || second.Outcome.Type != "success" || fmt.Sprint(second.Result) != "map[ok:true]" {
		t.Errorf("after the resume: %v, %+v, %v", second.Interrupts, second.Outcome, second.Result)
	}
	if in := s.inputs[0]; len(in.Tools) != 1 || in.Tools[0].Name != "browser" || len(in.Messages) != 1 || in.ThreadID != "s1" {
		t.Errorf("the server got %+v", in)
	}
	if in := s.inputs[1]; len(in.Results) != 1 || string(in.Results[0].Result) != `{"place":"Bern"}` || len(in.Messages) != 0 || len(in.Resume) != 1 {
		t.Errorf("the server got %+v", in)
	}
	s.sameMessages(t, v)
}

// TestFrontEndTool runs an agent that only calls a tool of the front end: the run ends successfully, and names the call.
func TestFrontEndTool(t *testing.T) {
	s := &server{agent: func(s *server, in dialect.RunInput) {
		if len(in.Messages) > 0 {
			s.write(chunk.RunStarted{RunID: "run-1", Mode: "execute", Input: in.Messages},
				chunk.ToolStart{ToolCallID: "c1", ToolName: "browser", Arguments: chunk.Value(`{}`)}, chunk.StreamPaused{})
			return
		}
		s.write(chunk.RunStarted{RunID: "run-2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "browser", Result: in.Results[0].Result},
			chunk.TextDelta{Delta: "Thanks."}, chunk.StreamEnd{StreamID: "s1"})
	}}
	v := ask(t, thread{URL: s.start(t), Calls: []call{{Say: new("Hi")}, {Results: []json.RawMessage{raw(`{"toolCallId":"c1","content":"here"}`)}}}})
	first := v.Calls[0]
	if first.Error != nil || first.Outcome == nil || first.Outcome.Type != "success" || !slices.Equal(first.Outcome.PendingToolCallIDs, []string{"c1"}) {
		t.Fatalf("%+v, %v", first.Outcome, first.Error)
	}
	s.sameMessages(t, v)
}

// TestReconnectByCursor breaks a connection after each event: the client calls runAgent again with the id of the last event in forwardedProps, which its schema
// lets through.
func TestReconnectByCursor(t *testing.T) {
	agent := func(s *server, in dialect.RunInput) {
		s.write(chunk.RunStarted{RunID: "run-1", Mode: "execute", Input: in.Messages}, chunk.StepStart{},
			chunk.Thinking{Content: "a"}, chunk.Thinking{Content: "b"}, chunk.TextDelta{Delta: "Hel"}, chunk.TextDelta{Delta: "lo"},
			chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "search"}, chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: `{"q"`},
			chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: `:1}`}, chunk.ToolStart{ToolCallID: "c1", ToolName: "search", Arguments: chunk.Value(`{"q":1}`)},
			chunk.ToolEnd{ToolCallID: "c1", ToolName: "search", Result: chunk.Value(`[1]`), ProviderExecuted: new(true)},
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/n", Value: new(chunk.Value(`1`))}}},
			chunk.File{URL: "https://f", MediaType: "image/png"}, chunk.TextDelta{Delta: "Bye"}, chunk.StepEnd{}, chunk.StreamEnd{StreamID: "s1"})
	}
	for n := 2; ; n++ { // RUN_STARTED has no id
		s := &server{agent: agent, breaks: n}
		v := ask(t, thread{URL: s.start(t), Calls: []call{{Say: new("Hi")}, {Props: raw(`{"lastEventId":"$cursor"}`)}}})
		if ended := v.Calls[0].Outcome != nil; ended {
			break // the whole response came
		}
		for i, c := range v.Calls {
			if c.Error != nil {
				t.Fatalf("%d, call %d: %s", n, i, *c.Error)
			}
		}
		// The events of the last record are sent together: a cut between them gives the client the first ones again.
		if s.inputs[1].Cursor.Seq == 0 {
			t.Fatalf("%d: no cursor: %s", n, v.Calls[1].Sent.Body)
		}
		if isEndOfRecord(s, n) {
			s.sameMessages(t, v)
		}
	}
}

// isEndOfRecord reports whether the first n events of a response are those of whole records.
func isEndOfRecord(s *server, n int) bool {
	var frames []byte
	w := dialect.New(fold.MessageID(1), dialect.Options{})
	for _, rec := range s.log {
		frames = w.Append(frames, rec)
		if got := strings.Count(string(frames), "\n\n"); got >= n {
			return got == n
		}
	}
	return false
}

// TestInputForAgents checks what is posted to agents with the schema of the protocol.
func TestInputForAgents(t *testing.T) {
	seed := seedtest.Seed(t)
	gen := turntest.Logs(turntest.Config{Turns: 3, Plain: true})
	rnd := rand.New(rand.NewPCG(seed, 4))
	for n := range *logs {
		s := folded(t, gen.Example(int(rnd.Int32())))
		text := dialect.AppendRunInput(nil, dialect.RunRequest{
			ThreadID: "s1", RunID: "r", ParentRunID: "p", History: s.Messages(0), State: s.State, Tools: []dialect.Tool{{Name: "n", Parameters: chunk.Value(`{}`)}, {Name: "m"}},
			Context: []dialect.Context{{Description: "d", Value: "v"}}, Resume: []dialect.Answer{{InterruptID: "i", Payload: chunk.Value(`true`)}, {InterruptID: "j", Cancelled: true}},
		})
		if v := ask(t, thread{Input: text, Calls: []call{}}); len(v.Logged) > 0 {
			t.Fatalf("-seed %d, log %d: %s\n%s", seed, n, v.Logged, text)
		}
		if _, err := dialect.ParseRunInput(text); err != nil {
			t.Fatal(err)
		}
	}
}
