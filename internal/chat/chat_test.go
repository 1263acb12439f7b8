package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/producers"
)

// answer writes "Hello world" in two pieces and ends.
func answer(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
	if err := say(ctx, run, 1, "Hello ", "world"); err != nil {
		return err
	}
	return run.End(ctx, nil)
}

// whole is the transcript for a client without a part of the answer.
func whole(id string) string {
	return "start(" + id + ") start-step text-start text-delta(Hello world) text-end finish-step finish(stop) DONE"
}

// want compares a transcript. Adjacent pieces of text are joined, because the worker decides how they are split.
func want(t *testing.T, got, want string) {
	t.Helper()
	if got = strings.ReplaceAll(got, ") text-delta(", ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFreshTurn(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(answer)
	message := chatBody("", user("u1", "hi"))
	want(t, e.post("", message), whole("msg-1"))
	want(t, e.post("", message), whole("msg-1")) // the response was lost, and the client sends the message again
	want(t, e.get("", nil), "204")
	want(t, e.post("", chatBody("", user("u1", "hi"), `{"id":"msg-1","role":"assistant","parts":[]}`, user("u2", "more"))), whole("msg-3"))
	w.handledAre("execute", "execute")
}

// The answer is requested before there is a worker: the stream is open, and a page that loads meanwhile shows the message and waits, too.
func TestNoWorkerYet(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("start(msg-1)")
	if got := e.page(); got != "active: msg-0 user" {
		t.Errorf("the snapshot is %q", got)
	}
	second := e.open(http.MethodGet, "/stream", "", nil)
	second.until("start(msg-1)")
	w.work(answer)
	want(t, "start(msg-1) "+first.rest(), whole("msg-1"))
	want(t, "start(msg-1) "+second.rest(), whole("msg-1"))
}

// asking waits for the browser in its first step and writes "thanks" in the second.
func asking(calls ...string) script {
	return func(ctx context.Context, c control.Command, run *producers.Run, _ *env) error {
		if c.Kind == control.Resume {
			if err := say(ctx, run, 2, "thanks"); err != nil {
				return err
			}
			return run.End(ctx, nil)
		}
		run.SetStep(1)
		if err := run.EmitBody(ctx, chunk.StepStart{}); err != nil {
			return err
		}
		for _, call := range calls {
			if err := run.EmitBody(ctx, question(run, call)); err != nil {
				return err
			}
		}
		if err := run.EmitBody(ctx, chunk.StepEnd{}); err != nil {
			return err
		}
		return run.Pause(ctx, "suspended_client_tool")
	}
}

// question is a call of the browser, or one that a user must approve.
func question(run *producers.Run, call string) chunk.Body {
	if strings.HasPrefix(call, "a") {
		return chunk.ToolApprovalRequest{ToolCallID: call, ToolName: "pay", ApprovalID: run.ID() + "::" + call, Input: chunk.Value(`{}`)}
	}
	return chunk.ToolStart{ToolCallID: call, ToolName: "browser", Arguments: chunk.Value(`{}`)}
}

const (
	asked  = "start(msg-1) start-step tool-input-available(c1) finish-step finish(tool-calls) DONE"
	thanks = "start(msg-1) tool-output-available(c1)(1) start-step text-start text-delta(thanks) text-end finish-step finish(stop) DONE"
)

// answers returns the POST of a client that ran c1.
var answersC1 = chatBody(`,"messageId":"msg-1"`, user("u1", "hi"), assistantMessage("msg-1 step c1=1"))

func TestClientTool(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(asking("c1"))
	want(t, e.post("", chatBody("", user("u1", "hi"))), asked)
	if got := e.page(); got != "paused: msg-0 user, msg-1 assistant" {
		t.Errorf("the snapshot is %q", got)
	}
	want(t, e.get("", nil), "204") // the message of a run that waits is complete
	want(t, e.post("", answersC1), thanks)
	w.handledAre("execute", "resume")
	// A client that has the whole answer and repeats its POST gets nothing new.
	again := chatBody("", user("u1", "hi"), assistantMessage("msg-1 step c1=1 step"))
	want(t, e.post("", again), "start(msg-1) finish(stop) DONE")
	// A client whose response was lost gets it again.
	want(t, e.post("", answersC1), thanks)
	w.handledAre("execute", "resume")
}

func TestApproval(t *testing.T) {
	for _, approved := range []bool{true, false} {
		t.Run(fmt.Sprint(approved), func(t *testing.T) {
			w := newEnv(t)
			e := w.newEdge(nil)
			w.work(asking("a1"))
			want(t, e.post("", chatBody("", user("u1", "hi"))),
				"start(msg-1) start-step tool-input-available(a1) tool-approval-request(a1) finish-step finish(tool-calls) DONE")
			run := control.ExecuteRunID(chunk.RootSession("acme", "s1"), "u1")
			word, denial := "no", "tool-output-denied(a1) "
			if approved {
				word, denial = "yes", ""
			}
			want(t, e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step "+run+"::a1="+word))),
				"start(msg-1) "+denial+"start-step text-start text-delta(thanks) text-end finish-step finish(stop) DONE")
		})
	}
}

// Fifty tabs answer the same call concurrently.
func TestFiftyAnswers(t *testing.T) {
	w := newEnv(t)
	edges := []*edge{w.newEdge(nil), w.newEdge(nil)}
	w.work(asking("c1"))
	want(t, edges[0].post("", chatBody("", user("u1", "hi"))), asked)
	var (
		answering sync.WaitGroup
		mu        sync.Mutex
		counts    = make(map[int]int)
	)
	for i := range 50 {
		answering.Go(func() {
			resp, err := edges[i%2].try(http.MethodPost, "/answers", `{"toolCallId":"c1","result":1}`, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			if resp.StatusCode == http.StatusConflict && !strings.Contains(string(body), `"first":{"kind":"client-tool-result","toolCallId":"c1"`) {
				t.Errorf("a conflict without the first outcome: %s", body)
			}
			mu.Lock()
			defer mu.Unlock()
			counts[resp.StatusCode]++
		})
	}
	answering.Wait()
	if counts[http.StatusNoContent] != 1 || counts[http.StatusConflict] != 49 {
		t.Errorf("statuses %v, want one 204 and 49 times 409", counts)
	}
	want(t, edges[1].post("", answersC1), thanks)
	w.handledAre("execute", "resume")
}

// Fifty times the same POST of a chat: there is one continuation, and all get it.
func TestFiftyContinuations(t *testing.T) {
	w := newEnv(t)
	edges := []*edge{w.newEdge(nil), w.newEdge(nil)}
	w.work(asking("c1"))
	var posting sync.WaitGroup
	for i := range 50 {
		posting.Go(func() { want(t, edges[i%2].post("", chatBody("", user("u1", "hi"))), asked) })
	}
	posting.Wait()
	for i := range 50 {
		posting.Go(func() { want(t, edges[i%2].post("", answersC1), thanks) })
	}
	posting.Wait()
	w.handledAre("execute", "resume")
}

// A message instead of an answer: the call has failed, and the new answer does not contain its result.
func TestAbandoned(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		if *c.Input[0].ClientMessageID == "u1" {
			return asking("c1")(ctx, c, run, w)
		}
		return answer(ctx, c, run, w)
	})
	want(t, e.post("", chatBody("", user("u1", "hi"))), asked)
	want(t, e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "never mind"))), whole("msg-3"))
	if got := e.calls(); got != "c1 output-error" {
		t.Errorf("calls are %q", got)
	}
}

func TestRegenerateAndEdit(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(answer)
	want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
	want(t, e.post("", chatBody(`,"trigger":"regenerate-message"`, user("u1", "hi"))), whole("msg-3"))
	if got := e.page(); got != "ended: msg-2 user, msg-3 assistant" {
		t.Errorf("the snapshot is %q", got)
	}
	edit := chatBody(`,"messageId":"u1"`, user("u1", "hello"))
	want(t, e.post("", edit), whole("msg-5"))
	want(t, e.post("", edit), whole("msg-5"))
	if got := e.page(); got != "ended: msg-4 user, msg-5 assistant" {
		t.Errorf("the snapshot is %q", got)
	}
	w.handledAre("execute", "execute", "execute")
}

// TestBranches continues an answer that another one has replaced, edits a message there, and goes back.
func TestBranches(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(answer)
	want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
	want(t, e.post("", chatBody(`,"trigger":"regenerate-message"`, user("u1", "hi"))), whole("msg-3"))
	want(t, e.post("", chatBody(`,"branch":"msg-1"`, assistantMessage("msg-1"), user("u2", "carry on"))), whole("msg-5"))
	if got := e.page(); got != "ended: msg-0 user, msg-1 assistant, msg-4 user, msg-5 assistant" {
		t.Errorf("the snapshot is %q", got)
	}
	if got := e.get("/snapshot?branch=msg-3", nil); !strings.Contains(got, `"branches":{"msg-2":["msg-0","msg-2"]}`) || strings.Contains(got, `"id":"msg-0"`) {
		t.Errorf("the other branch is %s", got)
	}
	want(t, e.post("", chatBody(`,"messageId":"msg-2","branch":"msg-3"`, user("msg-2", "hello"))), whole("msg-7"))
	if got := e.get("/snapshot", nil); !strings.Contains(got, `"branches":{"msg-6":["msg-0","msg-2","msg-6"]}`) {
		t.Errorf("after the edit: %s", got)
	}
	if got := e.get("/snapshot?branch=msg-99", nil); !strings.HasPrefix(got, "400") {
		t.Errorf("an unknown branch: %s", got)
	}
	w.handledAre("execute", "execute", "execute", "execute")
}

// slowly writes a word, waits for the gate, and writes another word.
func slowly(gate <-chan struct{}) script {
	return func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		run.SetStep(1)
		if err := run.EmitBody(ctx, chunk.StepStart{}); err != nil {
			return err
		}
		if _, err := run.Write(ctx, chunk.Chunk{Step: 1, Body: chunk.TextDelta{Delta: "Hello "}}); err != nil {
			return err
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, body := range []chunk.Body{chunk.TextDelta{Delta: "world"}, chunk.StepEnd{}} {
			if err := run.EmitBody(ctx, body); err != nil {
				return err
			}
		}
		return run.End(ctx, nil)
	}
}

// Two tabs and two edges; one edge stops in the middle. Its page reconnects to the other one with and without its cursor.
func TestReconnect(t *testing.T) {
	w := newEnv(t)
	one, two := w.newEdge(nil), w.newEdge(nil)
	gate := make(chan struct{})
	w.work(slowly(gate))
	first := one.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("text-delta(Hello )")
	tab := two.open(http.MethodGet, "", "", nil)
	tab.until("text-delta(Hello )")
	if got := two.page(); got != "active: msg-0 user" {
		t.Errorf("the snapshot is %q", got)
	}
	one.Stop()
	if err := first.broken(); err == nil {
		t.Error("the response ended cleanly when its edge went away")
	}
	cursor := two.open(http.MethodGet, "/stream", "", http.Header{"X-Resume-From-Sequence": {first.id}})
	bare := two.open(http.MethodGet, "/stream", "", nil)
	bare.until("text-delta(Hello )")
	// The log was rolled back, and another record has the sequence of the client.
	seq, _, anchored := strings.Cut(first.id, "-")
	old := two.open(http.MethodGet, "/stream", "", http.Header{"X-Resume-From-Sequence": {seq + "-a"}})
	if old.until("text-delta(Hello )"); !anchored {
		t.Errorf("the id %q has no anchor", first.id)
	}
	close(gate)
	want(t, old.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	want(t, cursor.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	want(t, bare.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	want(t, tab.rest(), "text-delta(world) text-end finish-step finish(stop) DONE")
	w.handledAre("execute")

	// After the end, a client that has all of it gets nothing, and one whose record is gone gets all of the answer.
	if got := two.get("/stream", http.Header{"X-Resume-From-Sequence": {tab.id}}); got != "204" {
		t.Errorf("after %s: %s", tab.id, got)
	}
	for _, gone := range []string{seq + "-a", "100000-a"} {
		want(t, two.get("/stream", http.Header{"X-Resume-From-Sequence": {gone}}),
			"start(msg-1) start-step text-start text-delta(Hello world) text-end finish-step finish(stop) DONE")
	}
}

// A client that disconnects does not stop the run; one that posts /stop does.
func TestStop(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	gate := make(chan struct{})
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		hints, unwatch, err := w.Inbox.Watch(c.Session, c.RunID)
		if err != nil {
			return err
		}
		defer unwatch()
		if err := say(ctx, run, 1, "Hello "); err != nil {
			return err
		}
		select {
		case <-hints:
		case <-gate:
		}
		stop, asked, err := w.Inbox.StopRequest(ctx, c.Session, c.RunID)
		if err != nil || !asked || stop.Reason != "enough" {
			return errors.Join(err, fmt.Errorf("stopped: %t %q", asked, stop.Reason))
		}
		if err := run.EmitBody(ctx, chunk.RunInterrupted{RunID: c.RunID}); err != nil {
			return err
		}
		return run.End(ctx, nil)
	})
	want(t, e.post("/stop", ""), "204")
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("text-delta(Hello )")
	first.close()
	tab := e.open(http.MethodGet, "", "", nil)
	tab.until("text-delta(Hello )")
	if got := e.post("/stop", `{"reason":"enough"}`); !strings.HasPrefix(got, "202 ") {
		t.Errorf("stop is %s", got)
	}
	if got := tab.rest(); !strings.HasSuffix(got, "finish(other) DONE") {
		t.Errorf("the stopped answer ends with %s", got)
	}
	want(t, e.post("/stop", ""), "204")
}

// An edge that is being stopped closes its streams, and accepts no new ones.
func TestDrain(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("start(msg-1)")
	if err := e.service.surface.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := first.broken(); err == nil {
		t.Error("the response ended cleanly in the middle of an answer")
	}
	if got := e.get("", nil); !strings.HasPrefix(got, "503 ") {
		t.Errorf("a drained edge answers %s", got)
	}
}

func TestLimit(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(c *edgeConfig) { c.edge.Limits = httpkit.Limits{Streams: 1} })
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("start(msg-1)")
	if got := e.get("", nil); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, `"TOO_MANY_STREAMS"`) {
		t.Errorf("one too many is %s", got)
	}
}

// The refused requests, with their responses.
func TestRefused(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(c *edgeConfig) { c.MaxBody = 600 << 10 })
	w.work(asking("c1", "a1"))
	want(t, e.get("/snapshot", nil), `404 {"error":"there is no such chat","code":"STREAM_NOT_FOUND"}`)
	e.post("", chatBody("", user("u1", "hi")))
	run := control.ExecuteRunID(chunk.RootSession("acme", "s1"), "u1")
	for _, row := range []struct{ name, path, body, want string }{
		{"no JSON", "", "x", "400 VALIDATION_ERROR"},
		{"no messages", "", `{}`, "400 VALIDATION_ERROR"},
		{"an empty list", "", `{"messages":[]}`, "400 VALIDATION_ERROR"},
		{"messages that are an object", "", `{"messages":{}}`, "400 VALIDATION_ERROR"},
		{"a message that is a number", "", `{"messages":[1]}`, "400 VALIDATION_ERROR"},
		{"a null message", "", `{"messages":[null]}`, "400 VALIDATION_ERROR"},
		{"an id that is a number", "", `{"messages":[{"id":1,"role":"user"}]}`, "400 VALIDATION_ERROR"},
		{"an invalid role", "", `{"messages":[{"id":"x","role":"tool"}]}`, "400 VALIDATION_ERROR"},
		{"parts that are a string", "", `{"messages":[{"id":"x","role":"user","parts":"a"}]}`, "400 VALIDATION_ERROR"},
		{"a part that is a number", "", `{"messages":[{"id":"x","role":"user","parts":[1]}]}`, "400 VALIDATION_ERROR"},
		{"a null part", "", `{"messages":[{"id":"x","role":"user","parts":[null]}]}`, "400 VALIDATION_ERROR"},
		{"text that is a number", "", `{"messages":[{"id":"x","role":"user","parts":[{"type":"text","text":1}]}]}`, "400 VALIDATION_ERROR"},
		{"a file without its url", "", `{"messages":[{"id":"x","role":"user","parts":[{"type":"file"}]}]}`, "400 VALIDATION_ERROR"},
		{"metadata that is a list", "", `{"messages":[{"id":"x","role":"user","metadata":[]}]}`, "400 VALIDATION_ERROR"},
		{"an unknown trigger", "", `{"trigger":"x","messages":[{"id":"x","role":"user"}]}`, "400 VALIDATION_ERROR"},
		{"a long id", "", chatBody("", user(strings.Repeat("é", 257), "x")), "400 VALIDATION_ERROR"},
		{"an unknown agent", "", chatBody(`,"agentType":"other"`, user("u9", "x")), "400 VALIDATION_ERROR"},
		{"an agent that has no name", "", chatBody(`,"agentType":"a b"`, user("u9", "x")), "400 VALIDATION_ERROR"},
		{"a deep body", "", chatBody("", `{"id":"x","role":"user","parts":`+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}`), "400 VALIDATION_ERROR"},
		{"metadata too deep for the log", "", chatBody("", `{"id":"u9","role":"user","metadata":{"a":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`}}`), "400 VALIDATION_ERROR"},
		{"no UTF-8", "", "{\"messages\":\"\xff\"}", "400 VALIDATION_ERROR"},
		{"a large body", "", chatBody("", user("u9", strings.Repeat("x", 600<<10))), "413 CONTENT_TOO_LARGE"},
		{"a message too large for the log", "", chatBody("", user("u9", strings.Repeat("x", 500<<10))), "413 CONTENT_TOO_LARGE"},
		{"an answer to nothing", "/answers", `{"toolCallId":"c9","result":1}`, "404 CALL_NOT_FOUND"},
		{"a result too deep for the log", "/answers", `{"toolCallId":"c1","result":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "400 VALIDATION_ERROR"},
		{"an error that is too long", "/answers", `{"toolCallId":"c1","error":"` + strings.Repeat("x", 9<<10) + `"}`, "400 VALIDATION_ERROR"},
		{"an answer of another kind", "/answers", `{"toolCallId":"a1","result":1}`, "400 VALIDATION_ERROR"},
		{"an approval of a call of the browser", "/answers", `{"kind":"approval-response","toolCallId":"c1","approvalId":"x","approved":true}`, "400 VALIDATION_ERROR"},
		{"an approval of another id", "/answers", `{"kind":"approval-response","toolCallId":"a1","approvalId":"x::a1","approved":true}`, "400 VALIDATION_ERROR"},
		{"an approval without a decision", "/answers", `{"kind":"approval-response","toolCallId":"a1","approvalId":"` + run + `::a1"}`, "400 VALIDATION_ERROR"},
		{"a result and an error", "/answers", `{"toolCallId":"c1","result":1,"error":"x"}`, "400 VALIDATION_ERROR"},
		{"neither", "/answers", `{"toolCallId":"c1"}`, "400 VALIDATION_ERROR"},
		{"an unknown kind", "/answers", `{"kind":"subagent-result","toolCallId":"c1","result":1}`, "400 VALIDATION_ERROR"},
		{"a member twice", "", `{"messages":[],` + chatBody("", user("u9", "x"))[1:], "400 VALIDATION_ERROR"},
		{"a member twice in a message", "", `{"messages":[{"id":"u9","role":"user","role":"user","parts":[{"type":"text","text":"x"}]}]}`, "400 VALIDATION_ERROR"},
		{
			"an approval with two decisions", "/answers",
			`{"kind":"approval-response","toolCallId":"a1","approvalId":"` + run + `::a1","approved":false,"approved":true}`, "400 VALIDATION_ERROR",
		},
		{"no parts", "", `{"messages":[{"id":"u9","role":"user"}]}`, "400 VALIDATION_ERROR"},
		{"empty parts", "", `{"messages":[{"id":"u9","role":"user","parts":[]}]}`, "400 VALIDATION_ERROR"},
		{"empty text", "", chatBody("", user("u9", "")), "400 VALIDATION_ERROR"},
		{"blank text", "", chatBody("", user("u9", " \n")), "400 VALIDATION_ERROR"},
		{"an unknown path", "/other", `{}`, "404 NOT_FOUND"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := e.post(row.path, row.body)
			status, code, _ := strings.Cut(row.want, " ")
			if !strings.HasPrefix(got, status+" {") || !strings.Contains(got, `"code":"`+code+`"`) {
				t.Errorf("got %s, want %s", got, row.want)
			}
			if strings.Contains(got, "goroutine") || strings.Contains(got, ".go:") {
				t.Errorf("it says too much: %s", got)
			}
		})
	}
	w.handledAre("execute")
	if got := e.calls(); got != "c1 input-available, a1 approval-requested" {
		t.Errorf("calls are %q: something was done for a message that was refused", got)
	}
	answers, err := w.Inbox.Answers(t.Context(), chunk.RootSession("acme", "s1"), run)
	if err != nil || len(answers) > 0 {
		t.Errorf("answers %v, %v: something was done for a message that was refused", answers, err)
	}
}

// A page of another origin cannot post on behalf of the user.
func TestCrossOrigin(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(c *edgeConfig) { c.edge.Origins = []string{"https://app.example"} })
	w.work(answer)
	for origin, status := range map[string]int{"https://evil.example": 403, "https://app.example": 200} {
		resp, err := e.try(http.MethodPost, "", chatBody("", user("u1", "hi")), http.Header{"Origin": {origin}, "Sec-Fetch-Site": {"cross-site"}})
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != status {
			t.Errorf("%s gets %d, want %d", origin, resp.StatusCode, status)
		}
	}
}

// reading is a response that a test reads step by step.
type streaming struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Scanner
	id    string   // the last one
	all   []string // data
}

func (e *edge) open(method, path, body string, header http.Header) *streaming {
	e.t.Helper()
	resp, err := e.try(method, path, body, header)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Vercel-Ai-Ui-Message-Stream") != "v1" || resp.Header.Get("X-Session-Id") != "s1" {
		e.t.Fatalf("status %d, %v", resp.StatusCode, resp.Header)
	}
	return &streaming{t: e.t, body: resp.Body, lines: bufio.NewScanner(resp.Body)}
}

// next returns the next word, "" at the end.
func (s *streaming) next() string {
	for s.lines.Scan() {
		line := s.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			s.id = id
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			s.all = append(s.all, data)
			return word(s.t, data)
		}
	}
	return ""
}

func (s *streaming) until(what string) {
	s.t.Helper()
	var seen []string
	for w := s.next(); w != ""; w = s.next() {
		if seen = append(seen, w); w == what {
			return
		}
	}
	s.t.Fatalf("%q ended before %s: %v", seen, what, s.lines.Err())
}

// rest returns the rest of the response, to a clean end.
func (s *streaming) rest() string {
	s.t.Helper()
	var seen []string
	for w := s.next(); w != ""; w = s.next() {
		seen = append(seen, w)
	}
	if err := s.lines.Err(); err != nil {
		s.t.Errorf("%v behind %q", err, seen)
	}
	return strings.Join(seen, " ")
}

// broken returns the error of a response that was cut.
func (s *streaming) broken() error {
	for s.lines.Scan() { // the rest is not compared
	}
	return s.lines.Err()
}

func (s *streaming) close() { s.body.Close() }

type snapshotPage struct {
	Status   string `json:"status"`
	Messages []struct {
		ID    string `json:"id"`
		Role  string `json:"role"`
		Parts []struct {
			Type       string `json:"type"`
			Text       string `json:"text"`
			ToolCallID string `json:"toolCallId"`
			State      string `json:"state"`
		} `json:"parts"`
	} `json:"messages"`
}

func (e *edge) snapshot() snapshotPage {
	e.t.Helper()
	_, text, _ := strings.Cut(e.get("/snapshot", nil), " ")
	var p snapshotPage
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		e.t.Fatalf("%s: %v", text, err)
	}
	return p
}

// page returns the snapshot in one line.
func (e *edge) page() string {
	e.t.Helper()
	p := e.snapshot()
	var ids []string
	for _, m := range p.Messages {
		ids = append(ids, m.ID+" "+m.Role)
	}
	return p.Status + ": " + strings.Join(ids, ", ")
}

// calls returns the calls of the snapshot with their states.
func (e *edge) calls() string {
	e.t.Helper()
	var calls []string
	for _, m := range e.snapshot().Messages {
		for _, p := range m.Parts {
			if p.ToolCallID != "" {
				calls = append(calls, p.ToolCallID+" "+p.State)
			}
		}
	}
	return strings.Join(calls, ", ")
}

// handledAre checks the commands that workers started.
func (w *env) handledAre(want ...string) {
	w.t.Helper()
	if got := w.commands(); !slices.Equal(got, want) {
		w.t.Errorf("commands %q, want %q", got, want)
	}
}

// The edge that stored the last answer crashed before it requested the resume of the run. The next edge that loads the chat requests it.
func TestResumeAfterEdgeCrash(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(asking("c1"))
	want(t, e.post("", chatBody("", user("u1", "hi"))), asked)
	session := chunk.RootSession("acme", "s1")
	err := w.Inbox.Answer(t.Context(), control.Answer{
		Session: session, RunID: control.ExecuteRunID(session, "u1"), CallID: "c1", Kind: control.ClientResult, Result: chunk.Value("1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, e.get("", nil), "start(msg-1) start-step tool-input-available(c1) finish-step tool-output-available(c1)(1) start-step text-start text-delta(thanks) text-end finish-step finish(stop) DONE")
	w.handledAre("execute", "resume")
}

// A page that was loaded while the chat waited reconnects when the run continues: its cursor is inside the message, and it gets the rest.
func TestTailOverASuspension(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(asking("c1"))
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.rest()
	paused := first.id
	want(t, e.post("/answers", `{"toolCallId":"c1","result":1}`), "204")
	got := e.get("", http.Header{"X-Resume-From-Sequence": {paused}})
	want(t, got, "tool-output-available(c1)(1) start-step text-start text-delta(thanks) text-end finish-step finish(stop) DONE")
}

// While a run is active, another message is refused.
func TestOneRunAtATime(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	gate := make(chan struct{})
	w.work(slowly(gate))
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.until("text-delta(Hello )")
	for range 3 {
		if got := e.post("", chatBody("", user("u1", "hi"), user("u2", "and"))); !strings.HasPrefix(got, "409 ") || !strings.Contains(got, codeExecution) {
			t.Errorf("another message gets %s", got)
		}
	}
	close(gate)
	first.rest()
	w.handledAre("execute")
}

// An answer to a call that does not wait: the stream rejects it, and the client does not post again.
func TestStaleAnswer(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(answer)
	want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
	want(t, e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step old::a1=yes"))),
		"start(msg-1) data-resume-rejected(stale-run-id) start-step finish-step finish(stop) DONE")
	w.handledAre("execute")
}
