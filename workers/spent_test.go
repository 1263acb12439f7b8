package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// do handles a command as a queue does that is never told: it stays there.
func (p *process) do(ctx context.Context, c commands.Command) error {
	err := p.Handle(ctx, c)
	if _, nothing := errors.AsType[commands.Done](err); nothing {
		return nil
	}
	return err
}

// pending is the command of a session that is on the queue.
func (w *world) pending(c commands.Command) commands.Command {
	w.t.Helper()
	there, _, err := w.queue.Pending(w.t.Context(), c.Session, c.AgentType)
	if err != nil {
		w.t.Fatal(err)
	}
	return there
}

// take removes the newest command of a session from the queue, and nothing else:
// others are there that were not acknowledged.
func (w *world) take(c commands.Command) commands.Command {
	w.t.Helper()
	there := w.pending(c)
	stream, err := w.srv.JetStream(w.t).Stream(w.t.Context(), "TR_COMMANDS")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := stream.DeleteMsg(w.t.Context(), uint64(w.revision(c))); err != nil {
		w.t.Fatal(err)
	}
	return there
}

// questions asks a browser n times, one step after the other, and then whatever
// more does.
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

// reply answers the question that a session waits for, and asks for it to go on,
// behind whatever is there.
func (w *world) reply(c commands.Command) commands.Command {
	w.t.Helper()
	snap := w.snapshot(c.Session)
	if len(snap.Pending) != 1 {
		w.t.Fatalf("run %s is %s, and waits for %+v", snap.Run.ID, snap.Run.Status, snap.Pending)
	}
	run := snap.Run.ID
	w.answer(inbox.Answer{Session: c.Session, RunID: run, CallID: snap.Pending[0].CallID, Kind: inbox.ClientResult, Result: chunk.Value(`"yes"`)})
	next := commands.Command{Kind: commands.Resume, Session: c.Session, AgentType: c.AgentType, RunID: commands.ResumeRunID(run), Resumes: run}
	if err := w.queue.Request(w.t.Context(), next, w.revision(c)); err != nil {
		w.t.Fatal(err)
	}
	return next
}

// A worker dies between the pause of a run and the acknowledgement of its
// command. The run goes on and pauses for a sub-agent before that command comes
// again: the sub-agent's worker wakes it all the same.
func TestASpentCommandIsInNobodysWay(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	p := w.worker(map[string]Agent{
		"asking": questions(1, func(ctx context.Context, t *Turn, s *Step) error {
			if t.Steps() == 1 {
				return s.Tool("help", SubagentTool("helper")).Delegate(ctx, map[string]any{"message": "Help!"})
			}
			s.Final()
			return s.Text(ctx, "Thank you.")
		}),
		"helper": oneStep(func(ctx context.Context, t *Turn, s *Step) error { return s.Output(ctx, "helped") }),
	})
	w.request(c)
	if err := p.do(t.Context(), c); err != nil { // and dies
		t.Fatal(err)
	}
	resume := w.reply(c)
	if err := p.do(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	if there := w.take(c); there.RunID != resume.RunID {
		t.Fatalf("the newest command is of run %s, want %s", there.RunID, resume.RunID)
	}
	if there := w.pending(c); there.RunID != c.RunID {
		t.Fatalf("the command of the dead worker is gone; there is that of run %s", there.RunID)
	}
	child := w.pending(commands.Command{Session: childSession(c.Session, resume.RunID, "help"), AgentType: "helper"})
	if err := p.do(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.Resumes != resume.RunID {
		t.Fatalf("the sub-agent has ended, and nobody wakes its parent: there is %s of run %s", there.Kind, there.RunID)
	}
	w.serve(p)
	w.awaitStatus(c.Session, fold.Ended)
}

// A command comes again when its run is long over, and so many have followed that
// the snapshot has forgotten it. It is not begun anew.
func TestACommandThatIsForgotten(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	c.Issued = time.Now()
	p := w.worker(map[string]Agent{"asking": questions(fold.MaxPast+3, func(ctx context.Context, _ *Turn, s *Step) error {
		s.Final()
		return s.Text(ctx, "Thank you.")
	})})
	w.request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.take(c)
	for range fold.MaxPast + 1 {
		if err := p.do(t.Context(), w.reply(c)); err != nil {
			t.Fatal(err)
		}
		w.take(c)
	}
	before := w.snapshot(c.Session)
	if standing(before, c.RunID) != notBegun {
		t.Fatal("the snapshot remembers the first run")
	}
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if after := w.snapshot(c.Session); after.Position != before.Position {
		t.Errorf("the session grew from %+v to %+v", before.Position, after.Position)
	}
}

// Somebody gives a run up that waits, and it was asked to go on a moment before:
// what goes on hears of it.
func TestAnAbortMeetsAResume(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	p := w.worker(map[string]Agent{"asking": questions(1, func(context.Context, *Turn, *Step) error {
		t.Error("the agent goes on")
		return nil
	})})
	w.request(c)
	if err := p.do(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	resume := w.reply(c)
	if err := p.stopChild(t.Context(), c.Session, c.AgentType, c.RunID); err != nil {
		t.Fatal(err)
	}
	if there := w.pending(c); there.RunID != resume.RunID {
		t.Fatalf("there is %s of run %s", there.Kind, there.RunID)
	}
	if err := p.do(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	snap := w.snapshot(c.Session)
	if snap.Status != fold.Failed || snap.Failure.Detail == nil || *snap.Failure.Detail.Code != CodeAborted {
		t.Errorf("the session is %s: %+v", snap.Status, snap.Failure)
	}
}

// A person says something to a run that has gone on before the command came to
// its turn: that is answered, whatever became of the run.
func TestAMessageToARunThatHasGoneOn(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "echo", "a")
	p := w.worker(echo())
	for _, run := range []string{"r1", "r2"} {
		c.RunID = run
		if err := p.do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	said := commands.Command{
		Kind: commands.Resume, Session: c.Session, AgentType: "echo", RunID: "r3", Resumes: "r1",
		Input: []chunk.InputMessage{{Content: "b"}},
	}
	if err := p.do(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	if got, want := told(w.snapshot(c.Session)), "user: b\nassistant: b of 5"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
}
