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

// The decision on an approval, and the answer to a tool that waits for one, continue the run that the Mastra server keeps. An approved tool runs once.
func TestMastraAnswers(t *testing.T) {
	w := newEnv(t, httpagent.Mastra)
	reason := "needed"
	for _, c := range []struct {
		name, ask, call string
		kind            fold.PendingKind
		answer          control.Answer
		state           fold.CallState
		want            string // last text
	}{
		{"denied", "delete", "call-remove", fold.PendingApproval, control.Answer{Kind: control.Approval, Reason: reason}, fold.CallDenied, `It is "needed".`},
		{"approved", "delete", "call-remove", fold.PendingApproval, control.Answer{Kind: control.Approval, Approved: true}, fold.CallDone, `It is {"deletions":1}.`},
		{"answered", "colour", "call-ask", fold.PendingClient, control.Answer{Kind: control.ClientResult, Result: chunk.Value(`{"name":"Red"}`)}, fold.CallDone, `It is {"colour":{"name":"Red"}}.`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := chunk.RootSession("acme", "s-"+c.name)
			w.ask(s, "r1", c.ask)
			snap := w.Await(s, "the call", func(s fold.Snapshot) bool { return s.Status == fold.Paused || s.Status == fold.Failed })
			if len(snap.Pending) != 1 || snap.Pending[0].CallID != c.call || snap.Pending[0].Kind != c.kind {
				t.Fatalf("%s, pending calls %+v", snap.Status, snap.Pending)
			}
			a := c.answer
			a.Session, a.RunID, a.CallID, a.ToolName, a.ApprovalID = s, "r1", c.call, snap.Pending[0].ToolName, snap.Pending[0].ApprovalID
			if err := w.Inbox.Answer(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			w.request(control.Command{Kind: control.Resume, Session: s, AgentType: "helper", RunID: control.ResumeRunID("r1"), Resumes: "r1"})
			snap = w.Await(s, "the end", func(s fold.Snapshot) bool { return s.Run.ID == control.ResumeRunID("r1") && s.Status != fold.Active })
			list := snap.Messages(1)
			if got := list[len(list)-1].Text(); snap.Status != fold.Ended || got != c.want {
				t.Errorf("%s %+v, answer %q, want %q", snap.Status, snap.Failure, got, c.want)
			}
			if calls := list[0].Calls(); len(calls) != 1 || calls[0].State != c.state {
				t.Errorf("calls %+v, want one %s", calls, c.state)
			}
		})
	}
	s := chunk.RootSession("acme", "s-count")
	w.ask(s, "r1", "count")
	list := w.AwaitStatus(s, fold.Ended).Messages(1)
	if got, want := list[0].Text(), "Deleted 1 times."; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}
