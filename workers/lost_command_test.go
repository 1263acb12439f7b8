package workers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
)

// A worker loses its run to another one in a long model call: it writes nothing, and so is not fenced. It must not keep the command in progress: the other
// worker crashes, and the command is redelivered.
func TestSupersededWorkerReleasesItsCommand(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "slow", "Hello?")
	started, superseded := make(chan struct{}, 1), make(chan error, 1)
	var calls atomic.Int64
	first := w.worker(map[string]Agent{"slow": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		if calls.Add(1) > 1 { // the command was redelivered
			return s.Text(ctx, "Hello.")
		}
		started <- struct{}{}
		<-ctx.Done() // an hour
		superseded <- context.Cause(ctx)
		return ctx.Err()
	})})
	first.stopPoll = 100 * time.Millisecond
	w.serve(first)
	w.Request(c)
	natstest.Receive(t, "the first worker", started)
	var second *process
	second = w.worker(map[string]Agent{"slow": AgentFunc(func(context.Context, *Turn) error {
		second.Kill()
		return errors.New("crashed")
	})})
	if err := second.do(t.Context(), c); err == nil { // as if the lease of the first had passed
		t.Fatal("the second worker has not crashed")
	}
	if err := natstest.Receive(t, "the end of the model call", superseded); !errors.Is(err, chunk.ErrFenced) {
		t.Errorf("cause %v, want ErrFenced", err)
	}
	w.AwaitStatus(c.Session, fold.Ended)
}

// A worker crashes between the acknowledgement of a late command and its follow-up. A client had relied on that command: the resume is requested before the
// command is gone.
func TestCrashBeforeTheFollowUp(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	p := w.worker(map[string]Agent{"asking": questions(2, func(ctx context.Context, _ *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "Thank you.")
	})})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil { // and crashes before the acknowledgement
		t.Fatal(err)
	}
	resume := w.reply(c)
	if err := p.do(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	if there := w.take(c); there.RunID != resume.RunID { // acknowledged
		t.Fatalf("newest command of run %s, want %s", there.RunID, resume.RunID)
	}
	w.answer(control.Answer{Session: c.Session, RunID: resume.RunID, CallID: "q2", Kind: control.ClientResult, Result: chunk.Value(`"yes"`)})
	// Its client finds the command of r1, and leaves the resume to that. It is redelivered, acknowledged, and its worker crashes.
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.Resumes != resume.RunID {
		t.Errorf("newest command is %s of run %s, want the resume of %s", there.Kind, there.RunID, resume.RunID)
	}
}

// A suspended run is aborted while an early Resume of it is on the queue: the worker of that Resume, which has nothing to resume,
// ends the run. The abort may be that of a parent that has ended, so that no user sees the run again.
func TestAbortFindsAnEarlyResume(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	p := w.worker(map[string]Agent{"asking": questions(1, func(context.Context, *Turn, *Step) error {
		t.Error("agent called after the abort")
		return nil
	})})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	early := control.Command{Kind: control.Resume, Session: c.Session, AgentType: c.AgentType, RunID: control.ResumeRunID(c.RunID), Resumes: c.RunID}
	if err := w.Queue.Request(t.Context(), early, w.revision(c)); err != nil {
		t.Fatal(err)
	}
	if err := p.stopChild(t.Context(), c.Session, c.RunID); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.RunID != early.RunID {
		t.Fatalf("newest command is %s of run %s, want the early Resume", there.Kind, there.RunID)
	}
	w.serve(p)
	snap := w.AwaitStatus(c.Session, fold.Failed)
	if snap.Failure.Detail == nil || *snap.Failure.Detail.Code != CodeAborted {
		t.Errorf("failure %+v, want %s", snap.Failure, CodeAborted)
	}
}

// A worker opens a suspended run in order to end it, because a message follows, and crashes. A late delivery of the command of that
// run ends it too: its agent is not called again, and the message does not wait for a run without a command.
func TestLateDeliveryEndsAConcludedRun(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	p := w.worker(map[string]Agent{"asking": questions(1, func(context.Context, *Turn, *Step) error {
		t.Error("agent called for the run that the message ends")
		return nil
	})})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	message := &commandJob{w: p.Workers, cmd: execute(c.Session.ID, "asking", "Never mind."), serveCtx: t.Context()}
	turn, err := message.reopen(t.Context(), w.Snapshot(c.Session))
	if err != nil {
		t.Fatal(err)
	}
	turn.close() // crashes before the run has ended
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if snap := w.Snapshot(c.Session); snap.Run.ID != c.RunID || snap.Status != fold.Ended || len(snap.OpenCalls()) != 0 {
		t.Errorf("run %s is %s, the session %s, %d open calls; want an ended session", snap.Run.ID, snap.Run.Status, snap.Status, len(snap.OpenCalls()))
	}
}
