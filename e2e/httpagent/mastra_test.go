//go:build e2e

package httpagent

import (
	"testing"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// An agent of @mastra/core gets the history, its own tools run in it, and a tool without execute runs in the browser.
func TestMastra(t *testing.T) {
	w := newEnv(t, httpagent.Mastra)
	s := chunk.RootSession("acme", "s1")
	last := func(run string) string {
		t.Helper()
		snap := w.Await(s, "the end of "+run, func(s fold.Snapshot) bool { return s.Run.ID == run && s.Status == fold.Ended })
		list := snap.Messages(0)
		return list[len(list)-1].Text()
	}
	w.ask(s, "r1", "How warm is it?")
	if got := last("r1"); got != `It is {"degrees":7}.` {
		t.Errorf("answer %q", got)
	}
	snap := w.Snapshot(s)
	if c := snap.Messages(1)[0].Calls(); len(c) != 1 || c[0].State != fold.CallDone || string(c[0].Input) != `{"city":"Bern"}` || snap.Run.Step != 2 || snap.Usage.Input != 40 {
		t.Errorf("calls %+v in %d steps, usage %+v", c, snap.Run.Step, snap.Usage)
	}

	w.ask(s, "r2", "And where am I?")
	snap = w.Await(s, "the call of the browser", func(s fold.Snapshot) bool { return s.Run.ID == "r2" && s.Status == fold.Paused })
	if p := snap.Pending; len(p) != 1 || p[0].Kind != fold.PendingClient || p[0].ToolName != "location" {
		t.Fatalf("pending calls %+v", p)
	}
	err := w.Inbox.Answer(t.Context(), control.Answer{
		Session: s, RunID: "r2", CallID: snap.Pending[0].CallID, ToolName: "location", Kind: control.ClientResult, Result: chunk.Value(`"Bern"`),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.request(control.Command{Kind: control.Resume, Session: s, AgentType: "helper", RunID: control.ResumeRunID("r2"), Resumes: "r2"})
	if got := last(control.ResumeRunID("r2")); got != `It is "Bern".` {
		t.Errorf("answer %q", got)
	}

	w.ask(s, "r3", "Hello again")
	if got := last("r3"); got != "You have asked 3 times." {
		t.Errorf("answer %q", got)
	}
}
