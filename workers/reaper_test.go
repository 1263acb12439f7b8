package workers

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

func (w *env) reaper(cfg ReaperConfig) *Reaper {
	w.t.Helper()
	r, err := NewReaper(w.NewProcess(natsauth.Projector).JS, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// orphan starts a run as "tailrace publish" does, without a command, and leaves it open.
func (w *env) orphan(opts ...producers.StartOption) (chunk.Session, *producers.Run) {
	w.t.Helper()
	p, err := producers.New(w.JS, producers.Config{Positions: producers.NoPositions})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = p.Close() })
	s := chunk.RootSession("acme", uniqueName("s"))
	run, err := p.Start(w.t.Context(), s, chunk.RunStarted{RunID: "r1", Input: []chunk.InputMessage{{Content: "Hello?"}}}, opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	err = errors.Join(
		run.EmitBody(w.t.Context(), chunk.TextDelta{Delta: "I was about to "}),
		run.EmitBody(w.t.Context(), chunk.ToolStart{ToolCallID: "c", ToolName: "search", Arguments: chunk.Value(`{}`)}),
	)
	if _, flushErr := run.Flush(w.t.Context()); err != nil || flushErr != nil {
		w.t.Fatal(err, flushErr)
	}
	return s, run
}

// wantAbandoned checks that a run has failed with its output, and without open calls.
func (w *env) wantAbandoned(s chunk.Session) {
	w.t.Helper()
	snap := w.Snapshot(s)
	if snap.Status != fold.Failed || *snap.Failure.Detail.Code != CodeRunAbandoned || len(snap.OpenCalls()) > 0 {
		w.t.Errorf("session is %s, failure %+v, open calls %+v", snap.Status, snap.Failure, snap.OpenCalls())
	}
}

// A run whose writer has died is found by its silence, and fails. A writer that was only slow is fenced.
func TestAbandonedRun(t *testing.T) {
	w := newEnv(t)
	for name, test := range map[string]struct {
		timeout     time.Duration
		stopped     bool
		isAbandoned bool
		ended       bool
	}{
		"silent for too long": {time.Nanosecond, false, true, true},
		"silent for a moment": {time.Hour, false, false, false},
		"stopped":             {time.Hour, true, false, true},
		"off":                 {Off, false, false, false},
		"off, and stopped":    {Off, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, run := w.orphan()
			r := w.reaper(ReaperConfig{RunTimeout: test.timeout})
			if got, err := r.IsAbandoned(t.Context(), s); err != nil || got != test.isAbandoned {
				t.Errorf("abandoned %t, %v", got, err)
			}
			if got, err := r.Abandon(t.Context(), s, test.stopped); err != nil || got != test.ended {
				t.Errorf("ended %t, %v", got, err)
			}
			err := run.End(t.Context(), nil)
			if !test.ended {
				if err != nil {
					t.Errorf("end: %v", err)
				}
				return
			}
			if !errors.Is(err, chunk.ErrFenced) {
				t.Errorf("slow writer: %v, want ErrFenced", err)
			}
			w.wantAbandoned(s)
			if got := transcript(w.Snapshot(s)); !strings.Contains(got, "I was about to") {
				t.Errorf("output missing:\n%s", got)
			}
			if again, err := r.Abandon(t.Context(), s, true); again || err != nil {
				t.Errorf("ended again: %t, %v", again, err)
			}
		})
	}
}

// A run with a command is left to its worker, however long it is silent.
func TestRunWithCommandIsNotAbandoned(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "slow", "Hello?")
	started, finish := make(chan struct{}), make(chan struct{})
	w.serve(w.worker(map[string]Agent{"slow": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		close(started)
		<-finish
		return s.Text(ctx, "Hello.")
	})}))
	w.Request(c)
	<-started
	r := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond})
	for _, stopped := range []bool{false, true} {
		if got, err := r.Abandon(t.Context(), c.Session, stopped); got || err != nil {
			t.Errorf("stopped %t: ended %t, %v", stopped, got, err)
		}
	}
	close(finish)
	w.AwaitStatus(c.Session, fold.Ended)
}

// Of several processes that find the same run one ends it.
func TestReapersAgree(t *testing.T) {
	w := newEnv(t)
	s, _ := w.orphan()
	var group sync.WaitGroup
	var mu sync.Mutex
	ended := 0
	r := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond, Observe: func(Reason) { mu.Lock(); ended++; mu.Unlock() }})
	for range 4 {
		group.Go(func() {
			if _, err := r.Abandon(t.Context(), s, false); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.wantAbandoned(s)
	if n := strings.Count(types(w.Bodies(s)), "stream_failed"); n != 1 || ended != 1 {
		t.Errorf("%d ends, %d observed, want 1", n, ended)
	}
}

// A sweep ends the runs without a worker, and the runs of commands that are about to expire: their input is in the log
// then, and their parents are answered.
func TestSweep(t *testing.T) {
	w := newEnv(t)
	s, _ := w.orphan()
	store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), w.Snapshot(s), 0); err != nil {
		t.Fatal(err)
	}
	queued := execute(uniqueName("s"), "unserved", "Hello?")
	w.Request(queued)
	parent := execute(uniqueName("s"), "parent", "Ask!")
	w.serve(w.worker(map[string]Agent{"parent": AgentFunc(func(ctx context.Context, turn *Turn) error {
		if turn.Steps() > 0 {
			return turn.Step(ctx, func(ctx context.Context, s *Step) error {
				calls := turn.Messages()[len(turn.Messages())-1].Calls()
				return s.Text(ctx, "It said: "+calls[0].Error)
			})
		}
		return turn.Step(ctx, func(ctx context.Context, s *Step) error {
			return s.Tool("c", SubagentTool("unserved")).Delegate(ctx, map[string]any{"message": "hello"})
		})
	})}))
	w.Request(parent)
	w.AwaitStatus(parent.Session, fold.Paused)
	child := execute(control.SubagentSession(parent.Session, "r1", "c").ID, "unserved")
	child.Session = control.SubagentSession(parent.Session, "r1", "c")
	natstest.Eventually(t, "the command of the sub-agent", func(ctx context.Context) error {
		_, _, err := w.Queue.Pending(ctx, child.Session, "unserved")
		return err
	})
	r := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond})
	r.open = later(r.open)
	if err := r.Sweep(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	for _, s := range []chunk.Session{s, queued.Session, child.Session} {
		w.wantAbandoned(s)
	}
	if got := transcript(w.Snapshot(queued.Session)); got != "user: Hello?" {
		t.Errorf("the message of the queued run is missing:\n%s", got)
	}
	snap := w.AwaitStatus(parent.Session, fold.Ended)
	if got := transcript(snap); !strings.Contains(got, "It said: no worker") {
		t.Errorf("the parent has\n%s", got)
	}
	// The session is not locked: its next message is accepted after the old command.
	next := execute(queued.Session.ID, "unserved", "Again?")
	next.RunID = "r2"
	if err := w.Queue.Request(t.Context(), next, w.revision(queued)); err != nil {
		t.Error(err)
	}
}

// laterQueue has a time that is 20 hours later. Commands expire after 24 hours. It does not list a Resume, such as the one that the sweep requests: its worker would be
// too late by then.
type laterQueue struct{ queue }

func (q laterQueue) SweepTime(ctx context.Context, host func() time.Time) (time.Time, error) {
	now, err := q.queue.SweepTime(ctx, host)
	return now.Add(20 * time.Hour), err
}

func (q laterQueue) StoredBefore(ctx context.Context, before time.Time) iter.Seq2[jscontrol.StoredCommand, error] {
	return func(yield func(jscontrol.StoredCommand, error) bool) {
		for c, err := range q.queue.StoredBefore(ctx, before) {
			if (err != nil || c.Kind == control.Execute) && !yield(c, err) {
				return
			}
		}
	}
}

func later(open func() (*Workers, func(), error)) func() (*Workers, func(), error) {
	return func() (*Workers, func(), error) {
		w, release, err := open()
		if err == nil {
			w.queue = laterQueue{w.queue}
		}
		return w, release, err
	}
}
