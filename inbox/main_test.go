package inbox

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var session = chunk.Session{Tenant: "acme", Root: "r1", ID: "s1"}

// start gives a server with the bucket.
func start(t *testing.T, opts ...natstest.Option) *natstest.Server {
	t.Helper()
	srv := natstest.Start(t, opts...)
	if err := topology.Ensure(t.Context(), srv.JetStream(t), topology.Config{}); err != nil {
		t.Fatal(err)
	}
	return srv
}

func newBox(t *testing.T, js jetstream.JetStream, cfg Config) *Box {
	t.Helper()
	b, err := New(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func result(call, value string) Answer {
	return Answer{Session: session, RunID: "run-1", CallID: call, ToolName: "lookup", Kind: ClientResult, Result: chunk.Value(value)}
}

func approval(call string, approved bool) Answer {
	return Answer{
		Session: session, RunID: "run-1", CallID: call, ToolName: "delete", Kind: Approval,
		ApprovalID: "run-1::" + call, Approved: approved, Reason: "because",
	}
}

func answers(t *testing.T, b *Box, run string) []Answer {
	t.Helper()
	all, err := b.Answers(t.Context(), session, run)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantAnswered: there was an answer before, and it is told.
func wantAnswered(t *testing.T, err error) Answer {
	t.Helper()
	first, ok := asAnswered(err)
	if !ok {
		t.Fatalf("err = %v, want ErrAnswered", err)
	}
	return first
}

func asAnswered(err error) (Answer, bool) {
	first, ok := errors.AsType[*AnsweredError](err)
	if !ok || !errors.Is(err, ErrAnswered) {
		return Answer{}, false
	}
	return first.Answer, true
}
