package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// do handles a command without an acknowledgement: it stays on the queue.
func (p *process) do(ctx context.Context, c control.Command) error {
	err := p.handle(ctx, c)
	if _, nothing := errors.AsType[control.AfterAck](err); nothing {
		return nil
	}
	return err
}

// pending returns the command of a session on the queue.
func (w *env) pending(c control.Command) control.Command {
	w.t.Helper()
	there, _, err := w.Queue.Pending(w.t.Context(), c.Session, c.AgentType)
	if err != nil {
		w.t.Fatal(err)
	}
	return there
}

// take removes the newest command of a session from the queue; older commands that were not acknowledged
// remain.
func (w *env) take(c control.Command) control.Command {
	w.t.Helper()
	there := w.pending(c)
	stream, err := w.Server.JetStream(w.t).Stream(w.t.Context(), "TR_COMMANDS")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := stream.DeleteMsg(w.t.Context(), uint64(w.revision(c))); err != nil {
		w.t.Fatal(err)
	}
	return there
}

// questions is an agent that asks a browser in n steps and then calls more.
func questions(n int, more func(ctx context.Context, t *Turn, s *Step) error) Agent {
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		for i := t.Steps() + 1; ; i++ {
			err := t.Step(ctx, func(ctx context.Context, s *Step) error {
				if i <= n {
					return s.Tool(fmt.Sprint("q", i), "ask").AskClient(ctx, map[string]any{}, time.Time{})
				}
				return more(ctx, t, s)
			})
			if err != nil {
				return err
			}
		}
	})
}

// reply answers the pending call of a session and requests a Resume, whatever command is on the queue.
func (w *env) reply(c control.Command) control.Command {
	w.t.Helper()
	snap := w.Snapshot(c.Session)
	if len(snap.Pending) != 1 {
		w.t.Fatalf("run %s is %s, pending %+v", snap.Run.ID, snap.Run.Status, snap.Pending)
	}
	run := snap.Run.ID
	w.answer(control.Answer{Session: c.Session, RunID: run, CallID: snap.Pending[0].CallID, Kind: control.ClientResult, Result: chunk.Value(`"yes"`)})
	next := control.Command{Kind: control.Resume, Session: c.Session, AgentType: c.AgentType, RunID: control.ResumeRunID(run), Resumes: run}
	if err := w.Queue.Request(w.t.Context(), next, w.revision(c)); err != nil {
		w.t.Fatal(err)
	}
	return next
}

// A worker crashes between the pause of a run and the acknowledgement of its command. The run is resumed and
// pauses for a sub-agent before that command is redelivered: the sub-agent's worker resumes the run
// nevertheless.
func TestObsoleteCommandDoesNotBlockResume(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	p := w.worker(map[string]Agent{
		"asking": questions(1, func(ctx context.Context, t *Turn, s *Step) error {
			if t.Steps() == 1 {
				return s.Tool("help", SubagentTool("helper")).Delegate(ctx, map[string]any{"message": "Help!"})
			}
			s.MarkFinal()
			return s.Text(ctx, "Thank you.")
		}),
		"helper": oneStep(func(ctx context.Context, t *Turn, s *Step) error { return s.Output(ctx, "helped") }),
	})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil { // and crashes
		t.Fatal(err)
	}
	resume := w.reply(c)
	if err := p.do(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	if there := w.take(c); there.RunID != resume.RunID {
		t.Fatalf("newest command of run %s, want %s", there.RunID, resume.RunID)
	}
	if there := w.pending(c); there.RunID != c.RunID {
		t.Fatalf("command of the crashed worker missing, got run %s", there.RunID)
	}
	child := w.pending(control.Command{Session: control.SubagentSession(c.Session, resume.RunID, "help"), AgentType: "helper"})
	if err := p.do(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.Resumes != resume.RunID {
		t.Fatalf("parent not resumed after the end of its sub-agent: got %s of run %s", there.Kind, there.RunID)
	}
	w.serve(p)
	w.AwaitStatus(c.Session, fold.Ended)
}

// A command is redelivered after its run has ended and so many runs have followed that the snapshot does not
// list it any more. The run is not started again.
func TestRedeliveryAfterRunWasForgotten(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	c.Issued = time.Now()
	p := w.worker(map[string]Agent{"asking": questions(fold.MaxPastRuns+3, func(ctx context.Context, _ *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "Thank you.")
	})})
	w.Request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.take(c)
	for range fold.MaxPastRuns + 1 {
		if err := p.do(t.Context(), w.reply(c)); err != nil {
			t.Fatal(err)
		}
		w.take(c)
	}
	before := w.Snapshot(c.Session)
	if runPhase(before, c.RunID) != phaseNone {
		t.Fatal("snapshot lists the first run")
	}
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if after := w.Snapshot(c.Session); after.Position != before.Position {
		t.Errorf("the session grew from %+v to %+v", before.Position, after.Position)
	}
}

// A suspended run is aborted just after its Resume was requested: the resumed run applies the abort.
func TestAbortRacesResume(t *testing.T) {
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
	resume := w.reply(c)
	if err := p.stopChild(t.Context(), c.Session, c.RunID); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.RunID != resume.RunID {
		t.Fatalf("got %s of run %s", there.Kind, there.RunID)
	}
	if err := p.do(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	snap := w.Snapshot(c.Session)
	if snap.Status != fold.Failed || snap.Failure.Detail == nil || *snap.Failure.Detail.Code != CodeAborted {
		t.Errorf("the session is %s: %+v", snap.Status, snap.Failure)
	}
}

// A Resume with a user message is handled after the run was resumed by another command: the message is
// answered in any case.
func TestMessageToResumedRun(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "echo", "a")
	p := w.worker(echo())
	for _, run := range []string{"r1", "r2"} {
		c.RunID = run
		if err := p.do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	message := control.Command{
		Kind: control.Resume, Session: c.Session, AgentType: "echo", RunID: "r3", Resumes: "r1",
		Input: []chunk.InputMessage{{Content: "b"}},
	}
	if err := p.do(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	if got, want := transcript(w.Snapshot(c.Session)), "user: b\nassistant: b of 5"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant suffix\n%s", got, want)
	}
}
