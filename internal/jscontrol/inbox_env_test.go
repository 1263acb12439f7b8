package jscontrol

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

var session = chunk.Session{Tenant: "acme", Root: "r1", ID: "s1"}

func newInbox(t *testing.T, js jetstream.JetStream, cfg InboxConfig) *Inbox {
	t.Helper()
	b, err := NewInbox(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func result(call, value string) control.Answer {
	return control.Answer{Session: session, RunID: "run-1", CallID: call, ToolName: "lookup", Kind: control.ClientResult, Result: chunk.Value(value)}
}

func approval(call string, approved bool) control.Answer {
	return control.Answer{
		Session: session, RunID: "run-1", CallID: call, ToolName: "delete", Kind: control.Approval,
		ApprovalID: "run-1::" + call, Approved: approved, Reason: "because",
	}
}

func answers(t *testing.T, b *Inbox, run string) []control.Answer {
	t.Helper()
	all, err := b.Answers(t.Context(), session, run)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantAnswered returns the earlier answer that err has.
func wantAnswered(t *testing.T, err error) control.Answer {
	t.Helper()
	first, ok := asAnswered(err)
	if !ok {
		t.Fatalf("err = %v, want ErrAnswered", err)
	}
	return first
}

func asAnswered(err error) (control.Answer, bool) {
	first, ok := errors.AsType[*control.AnsweredError](err)
	if !ok || !errors.Is(err, control.ErrAnswered) {
		return control.Answer{}, false
	}
	return first.Answer, true
}
