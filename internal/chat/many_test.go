package chat

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/workers"
)

// More sub-agents wait for approvals than a request may have rounds.
func TestManySubAgentsAsk(t *testing.T) {
	const many = conversation.MaxRounds + 4
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{"clerk": workers.AgentFunc(clerk), agentType: workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		asked := t.Steps() > 0
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if asked {
				s.MarkFinal()
				return s.Text(ctx, "all done")
			}
			for i := range many {
				if err := s.Tool(fmt.Sprint("d", i), workers.SubagentTool("clerk")).Delegate(ctx, map[string]any{"message": "pay"}); err != nil {
					return err
				}
			}
			return nil
		})
	})})
	var parts []string
	questions := make(map[string]bool)
	look := func(s *streaming) {
		s.rest()
		for _, data := range s.all {
			if !strings.Contains(data, `"tool-approval-request"`) || questions[data] {
				continue
			}
			questions[data] = true
			call, approval := (&streaming{t: t, all: []string{data}}).question()
			parts = append(parts, `{"type":"dynamic-tool","toolName":"pay","toolCallId":"`+call+`","state":"approval-responded","input":{"sum":5},
				"providerExecuted":true,"approval":{"id":"`+approval+`","approved":true}}`)
		}
	}
	for look(e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)); len(parts) < many; {
		look(e.open(http.MethodGet, "", "", nil))
	}
	got := e.post("", chatBody(`,"messageId":"msg-1"`, user("u1", "hi"), `{"id":"msg-1","role":"assistant","parts":[{"type":"step-start"},{"type":"step-start"},`+strings.Join(parts, ",")+`]}`))
	if !strings.Contains(got, "text-delta(all done)") || !strings.HasSuffix(got, "finish(stop) DONE") {
		t.Errorf("the answer continues with %.300s", got)
	}
}
