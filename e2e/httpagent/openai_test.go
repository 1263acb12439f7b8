//go:build e2e

package httpagent

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/agents/httpagent"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// A route of the OpenAI Agents SDK that is asked in the native form sends the events of the SDK: its tools, handoffs and approvals arrive, and no prompt.
func TestOpenAIAgents(t *testing.T) {
	w := newEnvOf(t, "openai", httpagent.Config{Dialect: httpagent.Native, Response: "openai", IdleTimeout: httpagent.Off})
	for name, c := range map[string]struct {
		ask      string
		approval *bool
		call     string
		output   string // of the call
		state    fold.CallState
		want     string // last text
	}{
		"a tool":              {ask: "Where is my parcel?", call: "track-1", output: `"{\"id\":7,\"city\":\"Oslo\"}"`, state: fold.CallDone, want: "It is in Oslo."},
		"a handoff":           {ask: "Is my bill paid?", call: "handoff-1", output: `"{\"assistant\":\"Billing\"}"`, state: fold.CallDone, want: "It is paid."},
		"an approval":         {ask: "remove them", approval: new(true), call: "remove-1", output: `"removed 3"`, state: fold.CallDone, want: "Well."},
		"a rejected approval": {ask: "remove them", approval: new(false), call: "remove-1", state: fold.CallDenied, want: "Well."},
	} {
		t.Run(name, func(t *testing.T) {
			s := chunk.RootSession("acme", "s-"+strings.ReplaceAll(name, " ", "-"))
			w.ask(s, "r1", c.ask)
			if c.approval != nil {
				snap := w.AwaitStatus(s, fold.Paused)
				if len(snap.Pending) != 1 || snap.Pending[0].CallID != c.call || snap.Pending[0].Kind != fold.PendingApproval {
					t.Fatalf("pending calls %+v", snap.Pending)
				}
				a := control.Answer{
					Kind: control.Approval, Approved: *c.approval, Session: s, RunID: "r1", CallID: c.call, ToolName: snap.Pending[0].ToolName, ApprovalID: snap.Pending[0].ApprovalID,
				}
				if err := w.Inbox.Answer(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				w.request(control.Command{Kind: control.Resume, Session: s, AgentType: "helper", RunID: control.ResumeRunID("r1"), Resumes: "r1"})
			}
			snap := w.AwaitStatus(s, fold.Ended)
			var text string
			var calls []fold.ToolCall
			for _, m := range snap.Messages(1) {
				text += m.Text()
				calls = append(calls, m.Calls()...)
			}
			if !strings.HasSuffix(text, c.want) || strings.Contains(text, "SECRET") {
				t.Errorf("text %q, want %q at its end", text, c.want)
			}
			if len(calls) != 1 || calls[0].ID != c.call || calls[0].State != c.state || c.output != "" && string(calls[0].Output) != c.output {
				t.Errorf("calls %+v", calls)
			}
		})
	}
}
