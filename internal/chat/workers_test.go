package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/workers"
)

// agents serves agents of the SDK until the test ends.
func (w *env) agents(agents map[string]workers.Agent) {
	w.t.Helper()
	p := w.NewProcess(natsauth.Worker)
	p.Go(must(workers.New(p.JS, workers.Config{Agents: agents}))(w.t).Run)
}

// boss delegates, and reports the result.
func boss(ctx context.Context, t *workers.Turn) error {
	if err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		for _, m := range t.Messages() {
			if len(m.Calls()) > 0 {
				s.MarkFinal()
				return s.Text(ctx, "it was done")
			}
		}
		return s.Tool("d1", workers.SubagentTool("clerk")).Delegate(ctx, map[string]any{"message": "pay"})
	}); err != nil {
		return err
	}
	return nil
}

// clerk requests an approval before it pays.
func clerk(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		granted := s.ApprovedCalls()
		if len(granted) == 0 && len(t.Messages()) == 1 {
			return s.Tool("a1", "pay").AskApproval(ctx, map[string]any{"sum": 5}, time.Time{})
		}
		for _, call := range granted {
			if err := call.End(ctx, "paid"); err != nil {
				return err
			}
		}
		s.MarkFinal()
		return s.Text(ctx, "paid")
	})
}

// A sub-agent requests an approval. The response stays open while the sub-agent works, because the client would not reconnect for its output; it is closed when
// the user must answer, because the client sends no answer while it is open.
func TestSubAgentAsks(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(clerk)})
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	got := first.rest()
	if !strings.Contains(got, "tool-approval-request(") || !strings.HasSuffix(got, "finish(tool-calls) DONE") || strings.Count(got, "finish(") != 1 {
		t.Fatalf("the question is %s", got)
	}
	call, approval := first.question()
	// A page that is loaded now gets the approval request from the stream; one that has received it does not get it again.
	if got := e.page(); got != "paused: msg-0 user" {
		t.Errorf("the snapshot is %q", got)
	}
	reloaded := e.open(http.MethodGet, "", "", nil)
	if again := reloaded.rest(); !strings.HasPrefix(again, "start(msg-1) ") || !strings.Contains(again, "tool-approval-request(") || !strings.HasSuffix(again, "finish(tool-calls) DONE") {
		t.Errorf("the question after a reload is %s", again)
	}
	want(t, e.get("", http.Header{"X-Resume-From-Sequence": {first.id}}), "204")
	answer := `{"id":"msg-1","role":"assistant","parts":[{"type":"step-start"},{"type":"step-start"},{"type":"dynamic-tool","toolName":"pay","toolCallId":"` + call +
		`","state":"approval-responded","input":{"sum":5},"providerExecuted":true,"approval":{"id":"` + approval + `","approved":true}}]}`
	got = e.post("", chatBody(`,"messageId":"msg-1"`, user("u1", "hi"), answer))
	for _, want := range []string{"start(msg-1) ", "tool-output-available(d1)", "text-delta(it was done)", "finish(stop) DONE"} {
		if !strings.Contains(got, want) {
			t.Errorf("the continuation has no %s: %s", want, got)
		}
	}
	if strings.Count(got, "finish(") != 1 || strings.Count(got, "start(") != 1 {
		t.Errorf("the continuation is %s", got)
	}
	// The same again after the sub-agent has ended, because the response was lost: the client gets what it did not get.
	got = e.post("", chatBody(`,"messageId":"msg-1"`, user("u1", "hi"), answer))
	if strings.Contains(got, "data-resume-rejected") || strings.Contains(got, "error") {
		t.Errorf("the answer once more gets %s", got)
	}
	for _, want := range []string{"start(msg-1) ", "tool-output-available(" + call + ")", "tool-output-available(d1)", "text-delta(it was done)", "finish(stop) DONE"} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer once more has no %s: %s", want, got)
		}
	}
	if got := e.calls(); !strings.Contains(got, "d1 output-available") {
		t.Errorf("calls are %s", got)
	}
}

// A sub-agent asks twice in one step of the answer. The first decision is posted again after the second question: its number of steps is that of both
// questions, and the client has neither the outcome of the first call nor the second question.
func TestSubAgentAsksTwice(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	twice := func(ctx context.Context, t *workers.Turn) error {
		for n := 1; n <= 2; n++ {
			if err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				for _, call := range s.ApprovedCalls() {
					return call.End(ctx, "paid")
				}
				return s.Tool(fmt.Sprint("a", n), "pay").AskApproval(ctx, map[string]any{"sum": n}, time.Time{})
			}); err != nil {
				return err
			}
		}
		return nil
	}
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(twice)})
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.rest()
	call, approval := first.question()
	answer := `{"id":"msg-1","role":"assistant","parts":[{"type":"step-start"},{"type":"step-start"},{"type":"dynamic-tool","toolName":"pay","toolCallId":"` + call +
		`","state":"approval-responded","input":{"sum":1},"providerExecuted":true,"approval":{"id":"` + approval + `","approved":true}}]}`
	want := []string{"start(msg-1) ", "tool-output-available(" + call + ")", "tool-approval-request(" + strings.Replace(call, "/a1", "/a2", 1) + ")", "finish(tool-calls) DONE"}
	for _, when := range []string{"first", "again"} {
		got := e.post("", chatBody(`,"messageId":"msg-1"`, user("u1", "hi"), answer))
		for _, want := range want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s: %s", when, want, got)
			}
		}
	}
}

// question returns the last approval request of a response.
func (s *streaming) question() (call, approval string) {
	s.t.Helper()
	var c struct {
		ToolCallID string `json:"toolCallId"`
		ApprovalID string `json:"approvalId"`
	}
	for _, data := range s.all {
		if strings.Contains(data, `"tool-approval-request"`) {
			if err := json.Unmarshal([]byte(data), &c); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return c.ToolCallID, c.ApprovalID
}

// asker calls the browser with a deadline, and reports the result.
func asker(deadline time.Duration) workers.AgentFunc {
	return func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			last := t.Messages()[len(t.Messages())-1]
			if calls := last.Calls(); len(calls) > 0 {
				s.MarkFinal()
				return s.Text(ctx, "then: "+string(calls[0].State))
			}
			at := time.Time{}
			if deadline > 0 {
				at = time.Now().Add(deadline)
			}
			return s.Tool("c1", "browser").AskClient(ctx, map[string]any{}, at)
		})
	}
}

// A message instead of an answer, with workers of the SDK: the new answer does not contain the old call, and has the id that the stream has announced.
func TestAbandonedByWorkers(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	asks := asker(0)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		last := t.Messages()[len(t.Messages())-1]
		if last.ClientID != "u2" {
			return asks(ctx, t)
		}
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			return s.Text(ctx, "never mind")
		})
	})})
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.Contains(got, "tool-input-available(c1)") || !strings.HasSuffix(got, " finish(tool-calls) DONE") {
		t.Fatalf("the question is %s", got)
	}
	got := e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "stop that")))
	if !strings.HasPrefix(got, "start(msg-3) ") || !strings.HasSuffix(got, "finish(stop) DONE") || strings.Contains(got, "c1") {
		t.Errorf("the new answer is %s", got)
	}
	if got := e.calls(); got != "c1 output-error" {
		t.Errorf("calls are %q", got)
	}
	if got := e.page(); got != "ended: msg-0 user, msg-1 assistant, msg-2 user, msg-3 assistant" {
		t.Errorf("the snapshot is %q", got)
	}
}

// No client answers in time.
func TestDeadline(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{agentType: asker(time.Second)})
	e.post("", chatBody("", user("u1", "hi")))
	natstest.Eventually(t, "the deadline", func(context.Context) error {
		if got := e.calls(); got != "c1 output-error" {
			return errors.New(got)
		}
		return nil
	})
	if got := e.post("/answers", `{"toolCallId":"c1","result":1}`); !strings.HasPrefix(got, "410 ") && !strings.HasPrefix(got, "409 ") {
		t.Errorf("an answer that came too late is %s", got)
	}
}
