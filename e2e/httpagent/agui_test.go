//go:build e2e

package httpagent

import (
	"testing"
	"time"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// The agent gets the tools, the context, the state and the properties of the client, as POST /api/agui keeps them, and changes the client's state.
func TestAGUIClientInput(t *testing.T) {
	w := newEnv(t, httpagent.AGUI)
	s := chunk.RootSession("acme", "s-input")
	w.request(control.Command{
		Kind: control.Execute, Session: s, AgentType: "helper", RunID: "r1", Issued: time.Now(), Input: []chunk.InputMessage{{Content: "what?", Metadata: new(chunk.Value(
			`{"agui":{"runId":"x","tools":[{"name":"paint","description":"Paints.","parameters":{"type":"object","properties":{"colour":{"type":"string"}}}}],` +
				`"context":[{"description":"page","value":"3"}],"state":{"colour":"red"},"forwardedProps":{"plan":"gold"}}}`,
		))}},
	})
	snap := w.AwaitStatus(s, fold.Ended)
	list := snap.Messages(1)
	if got, want := list[len(list)-1].Text(), "paint(colour), page: 3, gold, red."; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	if got, want := string(snap.State), `{"colour":"blue"}`; got != want {
		t.Errorf("state %s, want %s", got, want)
	}
}

// An agent that speaks AG-UI gets a RunAgentInput that @ag-ui/core accepts: with the state, the results of tools of the browser, and the answers to its interrupts
// under its own ids.
func TestAGUI(t *testing.T) {
	w := newEnv(t, httpagent.AGUI)
	for name, c := range map[string]struct {
		ask    string
		call   string           // that waits, "" for none
		answer *control.Answer  // to it
		kind   fold.PendingKind // of it
		want   string           // last text
		state  fold.CallState   // of the call in the end
	}{
		"tool of the agent":   {ask: "Hello", want: "Number 1."},
		"tool of the browser": {ask: "where?", call: "where-1", kind: fold.PendingClient, answer: &control.Answer{Kind: control.ClientResult, Result: chunk.Value(`"Bern"`)}, want: "You are in Bern.", state: fold.CallDone},
		"approval granted":    {ask: "delete", call: "delete-1", kind: fold.PendingApproval, answer: &control.Answer{Kind: control.Approval, Approved: true}, want: "The files are gone.", state: fold.CallDone},
		"approval denied":     {ask: "delete", call: "delete-1", kind: fold.PendingApproval, answer: &control.Answer{Kind: control.Approval}, want: "The files stay.", state: fold.CallDenied},
		"question":            {ask: "colour?", call: "colour", kind: fold.PendingClient, answer: &control.Answer{Kind: control.ClientResult, Result: chunk.Value(`"Red"`)}, want: "Red it is.", state: fold.CallDone},
	} {
		t.Run(name, func(t *testing.T) {
			s := chunk.RootSession("acme", "s-"+c.call+"-"+string(c.state))
			w.ask(s, "r1", c.ask)
			if c.answer != nil {
				snap := w.Await(s, "the call", func(s fold.Snapshot) bool { return s.Status == fold.Paused })
				if len(snap.Pending) != 1 || snap.Pending[0].CallID != c.call || snap.Pending[0].Kind != c.kind {
					t.Fatalf("pending calls %+v", snap.Pending)
				}
				a := *c.answer
				a.Session, a.RunID, a.CallID, a.ToolName, a.ApprovalID = s, "r1", c.call, snap.Pending[0].ToolName, snap.Pending[0].ApprovalID
				if err := w.Inbox.Answer(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				w.request(control.Command{Kind: control.Resume, Session: s, AgentType: "helper", RunID: control.ResumeRunID("r1"), Resumes: "r1"})
			}
			snap := w.AwaitStatus(s, fold.Ended)
			list := snap.Messages(1)
			if got := list[len(list)-1].Text(); got != c.want {
				t.Errorf("answer %q, want %q", got, c.want)
			}
			for _, call := range list[0].Calls() {
				if call.ID == c.call && call.State != c.state {
					t.Errorf("call %+v, want %s", call, c.state)
				}
			}
		})
	}
}
