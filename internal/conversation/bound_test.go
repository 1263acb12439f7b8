package conversation

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
)

// An approval is for the input that the client was shown; a denial, and a client that does not say what it was shown, need no proof.
func TestApprovalIsBoundToTheInput(t *testing.T) {
	const shown = `{"path":"a","n":1.0}`
	for _, tt := range []struct {
		name, input, part string
		approved          bool
		want              RejectionReason
	}{
		{"same", shown, `"input":{"n":1,"path":"\u0061"},`, true, ""},
		{"another one", `{"path":"b","n":1}`, `"input":` + shown + `,`, true, InputMismatch},
		{"another one is denied", `{"path":"b","n":1}`, `"input":` + shown + `,`, false, ""},
		{"masked", shown, `"input":null,`, true, InputMismatch},
		{"not said", shown, ``, true, ""},
		{"two members of one name", `{"path":"a","path":"b"}`, `"input":{"path":"b"},`, true, InputMismatch},
		{"two members of one name, shown", `{"path":"a","path":"b"}`, `"input":{"path":"a","path":"b"},`, true, InputMismatch},
	} {
		approved := "false"
		if tt.approved {
			approved = "true"
		}
		in, err := aisdk.ParseChatInput([]byte(`{"id":"s","messages":[{"id":"a1","role":"assistant","parts":[{"type":"tool-delete","toolCallId":"c1","state":"approval-responded",` +
			tt.part + `"approval":{"id":"r::c1","approved":` + approved + `}}]}]}`))
		if err != nil || len(in.Answered.Answers) != 1 {
			t.Fatalf("%s: %v, %+v", tt.name, err, in)
		}
		w := PendingCall{Kind: control.Approval, Approval: "r::c1", Input: chunk.Value(tt.input)}
		c := requestOf(in).Answered.Answers[0]
		if got := w.mismatch(c, true); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if a := w.take(c); tt.approved && a.InputHash != control.InputHash(w.Input) || !tt.approved && a.InputHash != "" {
			t.Errorf("%s: stored hash %q", tt.name, a.InputHash)
		}
	}
	c, r := ParseAnswer([]byte(`{"kind":"approval-response","toolCallId":"c1","approvalId":"r::c1","approved":true,"inputHash":"00"}`))
	w := PendingCall{Kind: control.Approval, Approval: "r::c1", Input: chunk.Value(shown)}
	if r != nil || w.mismatch(c, true) != InputMismatch {
		t.Errorf("hash: %+v, %q", r, w.mismatch(c, true))
	}
}

// A client of Mastra makes the id of an approval from the ids of the run and of the call, and the call may have a number behind its id in the messages of clients.
func TestApprovalOfACallWhoseIDWasUsedAgain(t *testing.T) {
	w := PendingCall{Kind: control.Approval, CallID: "a", UICallID: "a_2", Approval: "r::a"}
	for id, want := range map[string]RejectionReason{"r::a": "", "r::a_2": "", "r::a_3": ApprovalMismatch, "q::a_2": StaleRun} {
		if got := w.mismatch(control.Answer{Kind: control.Approval, CallID: "a_2", ApprovalID: id, Approved: true}, true); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}
