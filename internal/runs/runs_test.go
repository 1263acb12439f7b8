package runs_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

type env struct {
	*stack.Stack

	t      *testing.T
	client *runs.Client
}

// newEnv serves an agent that asks for a client tool, waits for release, and ends with the result of the tool.
func newEnv(t *testing.T) *env {
	t.Helper()
	s := stack.Start(t, stack.Options{})
	client, err := runs.New(s.JS, runs.Config{AgentTypes: []string{"helper"}})
	if err != nil {
		t.Fatal(err)
	}
	p := s.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{
		Agents:     map[string]workers.Agent{"helper": workers.AgentFunc(helper)},
		RetryDelay: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Go(worker.Run)
	return &env{s, t, client}
}

func helper(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		last := t.Messages()[len(t.Messages())-1]
		if calls := last.Calls(); len(calls) > 0 {
			s.MarkFinal()
			return s.Text(ctx, "done")
		}
		return s.Tool("c1", "browser").AskClient(ctx, map[string]any{}, time.Time{})
	})
}

// await reads the status until the run is in a phase.
func (w *env) await(id chunk.Session, phase any) conversation.Status {
	w.t.Helper()
	for {
		st, err := w.client.Status(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		if st.Phase == phase {
			return st
		}
		if st.Phase == conversation.PhaseFailed {
			w.t.Fatalf("the run failed: %+v", st.Failure)
		}
	}
}

func (w *env) start(id string) (chunk.Session, string) {
	w.t.Helper()
	session := chunk.RootSession("default", id)
	run, err := w.client.Start(w.t.Context(), runs.Start{Session: session, AgentType: "helper", Input: []chunk.InputMessage{{Content: "hi"}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return session, run
}

func wantReason(t *testing.T, err error, reason conversation.Reason) *runs.Error {
	t.Helper()
	refused, ok := errors.AsType[*runs.Error](err)
	if !ok || refused.Reason != reason {
		t.Fatalf("got %v, want the reason %s", err, reason)
	}
	return refused
}

// A session from its start to its end, with every call repeated.
func TestClient(t *testing.T) {
	w := newEnv(t)
	session, run := w.start("s1")
	if _, again := w.start("s1"); again != run {
		t.Errorf("started twice: %s, want %s", again, run)
	}
	if st := w.await(session, conversation.PhaseClient); len(st.Open.CallIDs) != 1 || st.Open.CallIDs[0] != "c1" || st.RunID != run {
		t.Errorf("the status is %+v", st)
	}
	if got, err := w.client.Resume(t.Context(), session); err != nil || got != run {
		t.Errorf("resume of a run that waits: %s, %v", got, err)
	}
	_, err := w.client.Resume(t.Context(), session, chunk.InputMessage{Content: "more"})
	wantReason(t, err, conversation.ReasonAwaiting)
	wantReason(t, w.client.Answer(t.Context(), session, runs.Answer{CallID: "c9", Result: chunk.Value("1")}), conversation.ReasonUnknownCall)
	wantReason(t, w.client.Answer(t.Context(), session, runs.Answer{CallID: "c1", ApprovalID: "a", Approved: true}), conversation.ReasonWrongKind)
	failed := "no browser"
	for _, both := range []runs.Answer{
		{CallID: "c1", Result: chunk.Value("1"), Error: &failed},
		{CallID: "c1", Result: chunk.Value("1"), Approved: true},
		{CallID: "c1", ApprovalID: "a", Approved: true, Result: chunk.Value("1")},
		{CallID: "c1", ApprovalID: "a", Error: &failed},
	} {
		if e := wantReason(t, w.client.Answer(t.Context(), session, both), conversation.ReasonInvalid); !errors.Is(e, chunk.ErrInvalid) || e.Text == "" {
			t.Errorf("%+v: %v", both, e)
		}
	}
	answer := runs.Answer{CallID: "c1", Result: chunk.Value(`{"city":"Ulm"}`)}
	if err := w.client.Answer(t.Context(), session, answer); err != nil {
		t.Fatal(err)
	}
	late := runs.Answer{CallID: "c1", Error: &failed}
	if e := wantReason(t, w.client.Answer(t.Context(), session, late), conversation.ReasonAnswered); e.First == nil || !reflect.DeepEqual(*e.First, answer) {
		t.Errorf("the answer that counts is %+v, want %+v", e.First, answer)
	}
	if st := w.await(session, conversation.PhaseCompleted); string(st.Output) != `"done"` || st.RunID == run {
		t.Errorf("the status is %+v", st)
	}
	snap, err := w.client.Snapshots().Snapshot(t.Context(), session)
	if messages := snap.Messages(0); err != nil || len(messages) != 3 { // the user's, and one for each step
		t.Errorf("the snapshot has %+v, %v", messages, err)
	}
	_, err = w.client.Stop(t.Context(), session, control.StopAbort, "late")
	wantReason(t, err, conversation.ReasonOver)
	_, err = w.client.Start(t.Context(), runs.Start{Session: session, AgentType: "helper"})
	wantReason(t, err, conversation.ReasonOver)
}

// A run that waits is aborted; unknown sessions and agents are refused.
func TestClientStops(t *testing.T) {
	w := newEnv(t)
	session, run := w.start("s1")
	w.await(session, conversation.PhaseClient)
	for range 2 {
		if got, err := w.client.Stop(t.Context(), session, control.StopAbort, "enough"); err == nil && got != run {
			t.Errorf("stopped %s, want %s", got, run)
		} else if err != nil {
			wantReason(t, err, conversation.ReasonOver) // the second request came after the abort
		}
	}
	for {
		st, err := w.client.Status(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		if st.Phase == conversation.PhaseFailed {
			break
		}
	}
	unknown := chunk.RootSession("default", "unknown")
	if _, err := w.client.Status(t.Context(), unknown); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("status of an unknown session: %v", err)
	}
	_, err := w.client.Start(t.Context(), runs.Start{Session: unknown, AgentType: "other"})
	wantReason(t, err, conversation.ReasonUnknownAgent)
}
