package chat

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/workers"
)

// delegateTo returns an agent that delegates to another, and ends with a text.
func delegateTo(name, text string) workers.AgentFunc {
	return func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if t.Steps() > 0 {
				s.MarkFinal()
				return s.Text(ctx, text)
			}
			if err := s.Text(ctx, "asks "+name); err != nil {
				return err
			}
			return s.Tool("d1", workers.SubagentTool(name)).Delegate(ctx, map[string]any{"message": "go"})
		})
	}
}

// reader calls a tool and reports the result. Each run of it has another text.
func reader() workers.AgentFunc {
	var runs atomic.Int64
	return func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			call := s.Tool("t/1", "read")
			if err := call.Start(ctx, map[string]any{}); err != nil {
				return err
			}
			if err := call.End(ctx, "42"); err != nil {
				return err
			}
			s.MarkFinal()
			return s.Text(ctx, fmt.Sprint("reads ", runs.Add(1)))
		})
	}
}

// contents returns the parts of the last message of the snapshot, without the sessions of sub-agents.
func (e *edge) contents() string {
	e.t.Helper()
	var out []string
	messages := e.snapshot().Messages
	for _, p := range messages[len(messages)-1].Parts {
		switch {
		case p.ToolCallID != "":
			_, id, ok := strings.Cut(p.ToolCallID, "/")
			if !ok {
				id = p.ToolCallID
			}
			out = append(out, fmt.Sprint("call(", id, " ", p.State, " ", ok, ")"))
		case p.Text != "":
			out = append(out, p.Text)
		default:
			out = append(out, p.Type)
		}
	}
	return strings.Join(out, ", ")
}

// A page that is loaded after the answer shows the output of sub-agents, also of those that sub-agents called, as the page that followed the stream does. An
// answer that was replaced does not leave the output of its sub-agents.
func TestInlineSnapshot(t *testing.T) {
	for mode, want := range map[aisdk.SubAgentContent]string{
		aisdk.Drop: "step-start, asks clerk, call(d1 output-available false), step-start, done",
		aisdk.Data: "step-start, asks clerk, call(d1 output-available false), step-start, done",
		aisdk.Inline: "step-start, asks clerk, call(d1 output-available false), asks reader, call(d1 output-available true), " +
			"call(t/1 output-available true), reads 1, answered, step-start, done",
	} {
		w := newEnv(t)
		e := w.newEdge(func(cfg *edgeConfig) { cfg.Dialect.SubAgents = mode })
		w.agents(map[string]workers.Agent{agentType: delegateTo("clerk", "done"), "clerk": delegateTo("reader", "answered"), "reader": reader()})
		first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
		if got := first.rest(); !strings.HasSuffix(got, "finish(stop) DONE") || strings.Contains(got, "reads 1") != (mode == aisdk.Inline) {
			t.Fatalf("%d: the answer is %s", mode, got)
		}
		if got := e.contents(); got != want {
			t.Errorf("%d: the snapshot has\n%s\nwant\n%s", mode, got, want)
		}
		if mode != aisdk.Inline {
			continue
		}
		var ids []string
		for _, m := range e.snapshot().Messages {
			for _, p := range m.Parts {
				if p.ToolCallID != "" {
					ids = append(ids, p.ToolCallID)
				}
			}
		}
		for _, id := range ids {
			if !slices.ContainsFunc(first.all, func(data string) bool { return strings.Contains(data, `"toolCallId":"`+id+`"`) }) {
				t.Errorf("the stream has no call %s", id)
			}
		}
		e.post("", chatBody(`,"trigger":"regenerate-message","messageId":"msg-1"`, user("u1", "hi")))
		if got, want := e.contents(), strings.Replace(want, "reads 1", "reads 2", 1); got != want {
			t.Errorf("the snapshot of the second answer has\n%s\nwant\n%s", got, want)
		}
		if got := e.get("/snapshot", nil); strings.Contains(got, "reads 1") {
			t.Errorf("the replaced answer is in %s", got)
		}
	}
}
