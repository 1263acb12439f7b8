package workers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// A message is accepted for an idle session, a program without the queue starts a run in it, and dies. The command of the message is not that of the run: it
// waits for the end of the run, which no process would write.
func TestAbandonedRunBeforeAQueuedOne(t *testing.T) {
	w := newEnv(t)
	s, _ := w.orphan(producers.AgentType("plain"))
	c := execute(s.ID, "plain", "And?")
	c.RunID = "r2"
	w.Request(c)
	r := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond})
	if got, err := r.Abandon(t.Context(), s, false); err != nil || !got {
		t.Fatalf("ended %t, %v", got, err)
	}
	w.wantAbandoned(s)
	w.serve(w.worker(map[string]Agent{"plain": oneStep(func(ctx context.Context, _ *Turn, s *Step) error { return s.Text(ctx, "Yes.") })}))
	w.Await(s, "the end of the queued run", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
}

// The command of a run is not the newest one of its session: other programs may publish commands in addition. The run has a worker nevertheless.
func TestRunWithAnEarlierCommandIsNotAbandoned(t *testing.T) {
	w := newEnv(t)
	s, _ := w.orphan(producers.AgentType("agent"))
	for _, run := range []string{"r1", "r2"} {
		c := execute(s.ID, "agent", "And?")
		c.RunID = run
		if err := w.Queue.Publish(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	r := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond})
	if got, err := r.Abandon(t.Context(), s, false); err != nil || got {
		t.Errorf("ended %t, %v", got, err)
	}
}

// lostAnswers is an inbox whose client crashes before an answer is stored.
type lostAnswers struct{ inboxStore }

func (lostAnswers) Answer(context.Context, control.Answer) error { return errors.New("crashed") }

// A reaper crashes after it has failed a sub-agent and before it has answered the parent. The sub-agent has no command that would be redelivered, and is not
// active: the sweep answers its parent.
func TestSweepAnswersParents(t *testing.T) {
	w := newEnv(t)
	parent := execute(uniqueName("s"), "parent", "Ask!")
	w.serve(w.worker(map[string]Agent{"parent": AgentFunc(func(ctx context.Context, turn *Turn) error {
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			if turn.Steps() > 0 {
				s.MarkFinal()
				return s.Text(ctx, "It said: "+turn.Messages()[len(turn.Messages())-1].Calls()[0].Error)
			}
			return s.Tool("c", SubagentTool("helper")).Delegate(ctx, map[string]any{"message": "hello"})
		})
	})}))
	w.Request(parent)
	paused := w.AwaitStatus(parent.Session, fold.Paused)
	w.awaitNoCommand(parent)
	child := control.Command{Session: control.SubagentSession(parent.Session, "r1", "c"), AgentType: "helper"}
	w.take(child)
	run, err := w.NewWriter(producers.Config{}).Start(t.Context(), child.Session, chunk.RunStarted{
		RunID: control.SubagentRunID(parent.Session, "r1", "c"), Parent: &chunk.Parent{SessionID: parent.Session.ID, CallID: "c"},
	}, producers.AgentType("helper"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	crashing := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond})
	open := crashing.open
	crashing.open = func() (*Workers, func(), error) {
		ws, release, err := open()
		ws.inbox = lostAnswers{ws.inbox}
		return ws, release, err
	}
	if _, err := crashing.Abandon(t.Context(), child.Session, false); err == nil {
		t.Fatal("the reaper has not crashed")
	}
	w.wantAbandoned(child.Session)
	w.sweep(paused)
	if got := transcript(w.AwaitStatus(parent.Session, fold.Ended)); !strings.Contains(got, "It said: the run has no worker") {
		t.Errorf("the parent has\n%s", got)
	}
}

// A client crashes after it has stored the last answer and before it has requested the resume, and no other client inspects the run: the sweep resumes it.
func TestSweepResumesAnsweredRuns(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	w.serve(w.worker(map[string]Agent{"asking": questions(1, func(ctx context.Context, _ *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "Thank you.")
	})}))
	w.Request(c)
	paused := w.AwaitStatus(c.Session, fold.Paused)
	w.awaitNoCommand(c)
	w.sweep(paused) // nothing is answered
	if _, _, err := w.Queue.Pending(t.Context(), c.Session, c.AgentType); !errors.Is(err, control.ErrNoCommand) {
		t.Errorf("command of a run that waits: %v", err)
	}
	w.answer(control.Answer{Session: c.Session, RunID: "r1", CallID: "q1", Kind: control.ClientResult, Result: chunk.Value(`"yes"`)})
	w.sweep(paused)
	w.AwaitStatus(c.Session, fold.Ended)
}

// sweep sweeps the session of a snapshot.
func (w *env) sweep(snap fold.Snapshot) {
	w.t.Helper()
	store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, _, err = store.Load(w.t.Context(), snap.Session); errors.Is(err, projector.ErrNoSnapshot) {
		_, err = store.Save(w.t.Context(), snap, 0)
	}
	if err := errors.Join(err, w.reaper(ReaperConfig{RunTimeout: time.Nanosecond}).Sweep(w.t.Context(), store)); err != nil {
		w.t.Fatal(err)
	}
}
