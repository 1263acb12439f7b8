package chat

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

// A second answer that arrives while the resumed run is still running gets the first one, also when the log does not have it yet.
func TestSecondAnswerWhileTheRunContinues(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	ask, begun, release := asking("c1"), make(chan struct{}), make(chan struct{})
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		if c.Kind == control.Resume {
			close(begun)
			<-release
		}
		return ask(ctx, c, run, w)
	})
	want(t, e.post("", chatBody("", user("u1", "hi"))), asked)
	want(t, e.post("/answers", `{"toolCallId":"c1","result":1}`), "204")
	<-begun
	got := e.post("/answers", `{"toolCallId":"c1","result":2}`)
	close(release)
	if !strings.HasPrefix(got, "409 ") || !strings.Contains(got, codeAnswered) || !strings.Contains(got, `"result":1`) {
		t.Errorf("the second answer is %s", got)
	}
}

// The user sends a message instead of an answer while other tabs load the chat. They do not resume the suspended run, because the message would then be
// refused.
func TestMessageInsteadOfAnAnswer(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.work(asking("c1"))
	for i := range 20 {
		e.base = fmt.Sprintf("/api/chat/s%d", i)
		e.post("", chatBody("", user("u1", "hi")))
		var all sync.WaitGroup
		all.Go(func() {
			got := e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "never mind")))
			if !strings.HasPrefix(got, "start(msg-3) ") || !strings.HasSuffix(got, "DONE") {
				t.Errorf("the message gets %s", got)
			}
		})
		for range 4 {
			all.Go(func() { e.get("", nil) })
		}
		all.Wait()
	}
}

// The second answer to a sub-agent's call gets the first one, whatever the state of the sub-agent is.
func TestSubAgentIsAnsweredTwice(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(clerk)})
	first := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	first.rest()
	call, approval := first.question()
	answer := func(approved bool) string {
		return e.post("/answers", fmt.Sprintf(`{"kind":"approval-response","toolCallId":%q,"approvalId":%q,"approved":%t}`, call, approval, approved))
	}
	want(t, answer(true), "204")
	accepted := fmt.Sprintf(`"first":{"kind":"approval-response","toolCallId":%q,"approvalId":%q,"approved":true`, call, approval)
	for ended := false; ; {
		if got := answer(false); !strings.HasPrefix(got, "409 ") || !strings.Contains(got, accepted) {
			t.Fatalf("the second answer is %s, want %s", got, accepted)
		}
		if ended {
			return
		}
		ended = strings.HasPrefix(e.page(), "ended:")
	}
}
