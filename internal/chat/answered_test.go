package chat

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/workers"
)

// A run waits for three answers. A page that is loaded after the first ones shows them, and does not ask again. The log has them when the run continues.
func TestAnswersOfOthersOnThePage(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if messages := t.Messages(); len(messages[len(messages)-1].Calls()) > 0 {
				for _, call := range s.ApprovedCalls() {
					if err := call.End(ctx, "paid"); err != nil {
						return err
					}
				}
				s.MarkFinal()
				return s.Text(ctx, "done")
			}
			for _, id := range []string{"a1", "a2"} {
				if err := s.Tool(id, "pay").AskApproval(ctx, map[string]any{"to": id}, time.Time{}); err != nil {
					return err
				}
			}
			return s.Tool("c1", "browser").AskClient(ctx, map[string]any{}, time.Time{})
		})
	})})
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.rest()
	_, approval := first.question()
	run, _, _ := strings.Cut(approval, "::")
	calls := func(want string) {
		t.Helper()
		if got := e.calls(); got != want {
			t.Errorf("calls are %s, want %s", got, want)
		}
	}
	calls("a1 approval-requested, a2 approval-requested, c1 input-available")
	want(t, e.post("/answers", `{"kind":"approval-response","toolCallId":"a1","approvalId":"`+run+`::a1","approved":false,"reason":"not this one"}`), "204")
	calls("a1 approval-responded, a2 approval-requested, c1 input-available")
	if got := e.get("/snapshot", nil); !strings.Contains(got, `"approval":{"id":"`+run+`::a1","approved":false,"reason":"not this one"}`) {
		t.Errorf("no decision in %s", got)
	}
	want(t, e.post("/answers", `{"toolCallId":"c1","result":{"width":7}}`), "204")
	calls("a1 approval-responded, a2 approval-requested, c1 output-available")
	want(t, e.post("/answers", `{"kind":"approval-response","toolCallId":"a2","approvalId":"`+run+`::a2","approved":true}`), "204")
	e.open(http.MethodGet, "", "", nil).rest()
	calls("a1 output-denied, a2 output-available, c1 output-available")
}
