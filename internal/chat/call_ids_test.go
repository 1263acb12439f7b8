package chat

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// askingAgain asks with the same call id before and after the first answer.
func askingAgain(call string) script {
	var resumes atomic.Int32
	return func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		if c.Kind == control.Resume {
			if resumes.Add(1) == 2 {
				return asking()(ctx, c, run, w)
			}
			c.Kind = control.Execute
		}
		return asking(call)(ctx, c, run, w)
	}
}

// Some agents use the id of a call again, and clients have the second call with a number behind its id. Its answer is given with that id, and the answer to the first call is
// in every message of a stock client.
func TestAnswerToACallWhoseIDWasUsedAgain(t *testing.T) {
	results := func(w *env) (out string) {
		for _, m := range must(w.Reader.Snapshot(t.Context(), sessionS1))(t).Messages(0) {
			for _, c := range m.Calls() {
				out += fmt.Sprintf("%s %s %s;", c.ID, c.State, c.Output)
			}
		}
		return out
	}
	t.Run("aisdk", func(t *testing.T) {
		w := newEnv(t)
		e := w.newEdge(nil)
		w.work(askingAgain("c1"))
		if got := e.post("", chatBody("", user("u1", "hi"))); !strings.Contains(got, "(c1") {
			t.Fatalf("the question is %s", got)
		}
		if got := e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step c1=1"))); !strings.Contains(got, "c1_2") {
			t.Fatalf("the second question is %s", got)
		}
		if got := e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step c1=1 step c1_2=2"))); !strings.Contains(got, "thanks") {
			t.Errorf("the answer is %s", got)
		}
		want(t, results(w), "c1 output-available 1;c1 output-available 2;")
	})
	t.Run("agui", func(t *testing.T) {
		w := newEnv(t)
		e := w.newAGUIEdge()
		w.work(askingAgain("c1"))
		e.run(nil, `"messages":[`+hi+`]`)
		answered := `"messages":[` + hi + `,{"id":"m","role":"assistant"},{"id":"t1","role":"tool","toolCallId":"c1","content":"[1]"}`
		if got, _ := e.run(nil, answered+`]`); !strings.Contains(got, "c1_2") {
			t.Fatalf("the second question is %s", got)
		}
		if got, _ := e.run(nil, answered+`,{"id":"t2","role":"tool","toolCallId":"c1_2","content":"[2]"}]`); !strings.Contains(got, "thanks") {
			t.Errorf("the answer is %s", got)
		}
		want(t, results(w), "c1 output-available [1];c1 output-available [2];")
	})
	t.Run("one answer", func(t *testing.T) {
		w := newEnv(t)
		e := w.newEdge(nil)
		w.work(askingAgain("c1"))
		answers := func(call, result string) string {
			return e.post("/answers", `{"kind":"client-tool-result","toolCallId":"`+call+`","result":`+result+`}`)
		}
		e.post("", chatBody("", user("u1", "hi")))
		want(t, answers("c1", "1"), "204")
		if got := e.get("", http.Header{"Last-Event-Id": {"1"}}); !strings.Contains(got, "c1_2") {
			t.Fatalf("the second question is %s", got)
		}
		if got := answers("c1", "1"); !strings.HasPrefix(got, "409 ") { // the response was lost
			t.Errorf("the first answer again is %s", got)
		}
		want(t, answers("c1_2", "2"), "204")
		e.get("", nil)
		want(t, results(w), "c1 output-available 1;c1 output-available 2;")
	})
}
