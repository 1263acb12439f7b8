package runs_test

import (
	"cmp"
	"context"
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

	t       *testing.T
	service *conversation.Service
}

// newEnv serves an agent that asks for a client tool, waits for release, and ends with the result of the tool.
func newEnv(t *testing.T) *env {
	t.Helper()
	s := stack.Start(t, stack.Options{})
	service, err := runs.New(s.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"helper"}}})
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
	return &env{s, t, service}
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
func (w *env) await(id chunk.Session, phase conversation.Phase) conversation.Status {
	w.t.Helper()
	for {
		st, refusal := w.service.Status(w.t.Context(), id)
		if refusal != nil {
			w.t.Fatal(refusal)
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
	run, refusal := w.service.Start(w.t.Context(), conversation.StartRequest{Session: session, AgentType: "helper", Input: []chunk.InputMessage{{Content: "hi"}}})
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	return session, run
}

// resume resumes a session with the messages of a user.
func (w *env) resume(id chunk.Session, input ...chunk.InputMessage) (string, *conversation.Refusal) {
	key, refusal := conversation.ResumeKey(input)
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	return w.service.Resume(w.t.Context(), conversation.ResumeRequest{Session: id, Input: input, Key: key})
}

func wantReason(t *testing.T, refusal *conversation.Refusal, reason conversation.Reason) *conversation.Refusal {
	t.Helper()
	if refusal == nil || refusal.Reason != reason {
		t.Fatalf("got %v, want the reason %s", refusal, reason)
	}
	return refusal
}

// A session from its start to its end, with every call repeated.
func TestService(t *testing.T) {
	w := newEnv(t)
	session, run := w.start("s1")
	if _, again := w.start("s1"); again != run {
		t.Errorf("started twice: %s, want %s", again, run)
	}
	if st := w.await(session, conversation.PhaseClient); len(st.Open.CallIDs) != 1 || st.Open.CallIDs[0] != "c1" || st.RunID != run {
		t.Errorf("the status is %+v", st)
	}
	if got, refusal := w.resume(session); refusal != nil || got != run {
		t.Errorf("resume of a run that waits: %s, %v", got, refusal)
	}
	_, refusal := w.resume(session, chunk.InputMessage{Content: "more"})
	wantReason(t, refusal, conversation.ReasonAwaiting)
	answer := func(c control.Answer) *conversation.Refusal {
		c.Kind, c.CallID = cmp.Or(c.Kind, control.ClientResult), cmp.Or(c.CallID, "c1")
		return w.service.Answer(t.Context(), session, "", c)
	}
	wantReason(t, answer(control.Answer{CallID: "c9", Result: chunk.Value("1")}), conversation.ReasonUnknownCall)
	wantReason(t, answer(control.Answer{Kind: control.Approval, ApprovalID: "a", Approved: true}), conversation.ReasonWrongKind)
	failed := control.Answer{Error: "no browser", ErrorCode: control.CodeToolFailed}
	for _, both := range []control.Answer{
		{Result: chunk.Value("1"), Error: failed.Error, ErrorCode: failed.ErrorCode},
		{Result: chunk.Value("1"), Approved: true},
		{Kind: control.Approval, ApprovalID: "a", Approved: true, Result: chunk.Value("1")},
		{Kind: control.Approval, ApprovalID: "a", Error: failed.Error, ErrorCode: failed.ErrorCode},
	} {
		if r := wantReason(t, answer(both), conversation.ReasonInvalid); r.Text == "" {
			t.Errorf("%+v: %v", both, r)
		}
	}
	if refusal := answer(control.Answer{Result: chunk.Value(`{"city":"Ulm"}`)}); refusal != nil {
		t.Fatal(refusal)
	}
	if r := wantReason(t, answer(failed), conversation.ReasonAnswered); r.First == nil || r.First.CallID != "c1" || string(r.First.Result) != `{"city":"Ulm"}` || r.First.Failed() {
		t.Errorf("the answer that counts is %+v", r.First)
	}
	if st := w.await(session, conversation.PhaseCompleted); string(st.Output) != `"done"` || st.RunID == run {
		t.Errorf("the status is %+v", st)
	}
	snap, err := w.service.Snapshots().Snapshot(t.Context(), session)
	if messages := snap.Messages(0); err != nil || len(messages) != 3 { // the user's, and one for each step
		t.Errorf("the snapshot has %+v, %v", messages, err)
	}
	_, refusal = w.service.Stop(t.Context(), session, control.StopAbort, "late")
	wantReason(t, refusal, conversation.ReasonOver)
	_, refusal = w.service.Start(t.Context(), conversation.StartRequest{Session: session, AgentType: "helper"})
	wantReason(t, refusal, conversation.ReasonOver)
}

// A run that waits is aborted; unknown sessions and agents are refused.
func TestStops(t *testing.T) {
	w := newEnv(t)
	session, run := w.start("s1")
	w.await(session, conversation.PhaseClient)
	for range 2 {
		if got, refusal := w.service.Stop(t.Context(), session, control.StopAbort, "enough"); refusal == nil && got != run {
			t.Errorf("stopped %s, want %s", got, run)
		} else if refusal != nil {
			wantReason(t, refusal, conversation.ReasonOver) // the second request came after the abort
		}
	}
	w.await(session, conversation.PhaseFailed)
	unknown := chunk.RootSession("default", "unknown")
	_, refusal := w.service.Status(t.Context(), unknown)
	wantReason(t, refusal, conversation.ReasonNoSession)
	_, refusal = w.service.Start(t.Context(), conversation.StartRequest{Session: unknown, AgentType: "other"})
	wantReason(t, refusal, conversation.ReasonUnknownAgent)
}
