package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
)

// delegating is an agent that calls the agent "helper" and reports its result.
var delegating = AgentFunc(func(ctx context.Context, turn *Turn) error {
	return turn.Step(ctx, func(ctx context.Context, s *Step) error {
		if turn.Steps() == 0 {
			return s.Tool("c", SubagentTool("helper")).Delegate(ctx, map[string]any{"message": "secret"})
		}
		s.MarkFinal()
		call := turn.Messages()[len(turn.Messages())-1].Calls()[0]
		return s.Text(ctx, "It said: "+string(call.Output)+call.Error)
	})
})

func (w *env) eraser(cfg retention.EraserConfig) *retention.Eraser {
	w.t.Helper()
	js := w.NewProcess(natsauth.Projector).JS
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := retention.NewEraser(js, store, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// pausedOnHelper returns the command of a run that is paused on a sub-agent that no worker serves, and the command of the sub-agent.
func (w *env) pausedOnHelper() (parent, child control.Command) {
	w.t.Helper()
	parent = execute(uniqueName("s"), "parent", "Ask!")
	w.serve(w.worker(map[string]Agent{"parent": delegating}))
	w.Request(parent)
	w.AwaitStatus(parent.Session, fold.Paused)
	w.awaitNoCommand(parent)
	return parent, w.pending(control.Command{Session: control.SubagentSession(parent.Session, "r1", "c"), AgentType: "helper"})
}

// commands returns the number of commands on the queue.
func (w *env) commands(ctx context.Context) uint64 {
	w.t.Helper()
	stream, err := w.Server.JetStream(w.t).Stream(ctx, "TR_COMMANDS")
	if err != nil {
		w.t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// The run of a conversation is paused on a sub-agent whose command waits for a worker. The conversation is deleted, and the command with it. A stalled worker
// of the parent requests it again: the next worker acknowledges it and calls no agent, and without a worker the sweep removes it and writes nothing.
func TestCommandOfASubagentOfADeletedTree(t *testing.T) {
	for _, served := range []bool{true, false} {
		t.Run(fmt.Sprintf("served %t", served), func(t *testing.T) {
			w := newEnv(t)
			parent, child := w.pausedOnHelper()
			if err := w.eraser(retention.EraserConfig{}).Delete(t.Context(), parent.Session); err != nil {
				t.Fatal(err)
			}
			if n := w.commands(t.Context()); n != 0 {
				t.Errorf("%d commands after the deletion", n)
			}
			w.Request(child)
			if served {
				var calls atomic.Int64
				w.serve(w.worker(map[string]Agent{"helper": AgentFunc(func(context.Context, *Turn) error { calls.Add(1); return nil })}))
				w.awaitNoCommand(child)
				if calls.Load() != 0 {
					t.Error("the agent was called")
				}
			} else {
				store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
				if err != nil {
					t.Fatal(err)
				}
				r := w.reaper(ReaperConfig{})
				r.open = later(r.open)
				if err := r.Sweep(t.Context(), store); err != nil {
					t.Fatal(err)
				}
			}
			if n := w.commands(t.Context()); n != 0 {
				t.Errorf("%d commands are left", n)
			}
			for _, s := range []chunk.Session{parent.Session, child.Session} {
				if snap, err := w.Reader.Snapshot(t.Context(), s); !errors.Is(err, chunk.ErrUnknownSession) {
					t.Errorf("%s: %s\n%s, %v", s, snap.Run.ID, transcript(snap), err)
				}
			}
		})
	}
}

// A sub-agent is deleted alone, before a worker has started it. Its call fails, and its parent continues: at once if the deletion is reported, otherwise with
// the next sweep, also if the log has the deletion record and the tombstone was lost.
func TestParentOfADeletedSubagent(t *testing.T) {
	for name, reported := range map[string]bool{"reported": true, "not reported": false, "without a tombstone": false} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			parent, child := w.pausedOnHelper()
			r := w.reaper(ReaperConfig{})
			var cfg retention.EraserConfig
			if reported {
				started := make(chan struct{})
				w.serve(w.worker(map[string]Agent{"helper": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
					close(started)
					<-ctx.Done()
					return ctx.Err()
				})}))
				natstest.Receive(t, "the start of the sub-agent", started)
				cfg.ChildDeleted = r.ContinueParent
			}
			paused := w.Snapshot(parent.Session)
			if err := w.eraser(cfg).Delete(t.Context(), child.Session); err != nil {
				t.Fatal(err)
			}
			if name == "without a tombstone" {
				w.loseTombstone(child.Session)
			}
			if !reported {
				w.sweep(paused)
			}
			if got := transcript(w.AwaitStatus(parent.Session, fold.Ended)); !strings.Contains(got, "It said: sub-agent deleted") {
				t.Errorf("the parent has\n%s", got)
			}
		})
	}
}

func (w *env) loseTombstone(s chunk.Session) {
	w.t.Helper()
	bucket, err := w.Server.JetStream(w.t).Stream(w.t.Context(), "KV_TR_SNAPSHOTS")
	if err != nil {
		w.t.Fatal(err)
	}
	key, err := names.SnapshotHeadKey(s)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := bucket.Purge(w.t.Context(), jetstream.WithPurgeSubject("$KV.TR_SNAPSHOTS."+key)); err != nil {
		w.t.Fatal(err)
	}
}

// The command of a sub-agent was lost, for example because its queue was replaced by an older copy: the sweep requests it again.
func TestSweepRequestsALostSubagent(t *testing.T) {
	w := newEnv(t)
	parent, child := w.pausedOnHelper()
	w.take(child)
	w.sweep(w.Snapshot(parent.Session))
	w.serve(w.worker(map[string]Agent{"helper": oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, "hello")
	})}))
	if got := transcript(w.AwaitStatus(parent.Session, fold.Ended)); !strings.Contains(got, "It said: \"hello\"") {
		t.Errorf("the parent has\n%s", got)
	}
}

// A worker gets a command and stalls. The session is deleted, and then perhaps starts again, or its tombstone is lost. The worker continues: it does not start the
// deleted run.
func TestStalledWorkerOfADeletedSession(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "again": true, "without a tombstone": false, "again without a tombstone": true} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "agent", "secret")
			w.Request(c)
			c = w.pending(c)
			p := w.worker(map[string]Agent{"agent": oneStep(func(ctx context.Context, _ *Turn, s *Step) error { return s.Text(ctx, "Yes.") })})
			loaded, deleted := make(chan struct{}), make(chan struct{})
			p.reader = stallingReader{p.reader, loaded, deleted}
			ended := make(chan error, 1)
			go func() { ended <- p.do(t.Context(), c) }()
			natstest.Receive(t, "the first read of the worker", loaded)
			if err := w.eraser(retention.EraserConfig{}).Delete(t.Context(), c.Session); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "without a tombstone") {
				w.loseTombstone(c.Session)
			}
			if again {
				next := execute(c.Session.ID, "agent", "And now?")
				next.RunID = "r2"
				w.Request(next)
				if err := w.worker(p.cfg.Agents).do(t.Context(), w.pending(next)); err != nil {
					t.Fatal(err)
				}
			}
			close(deleted)
			if err := natstest.Receive(t, "the end of the command", ended); err != nil {
				t.Error(err)
			}
			snap, err := w.Reader.Snapshot(t.Context(), c.Session)
			if again && (err != nil || transcript(snap) != "user: And now?\nassistant: Yes.") || !again && !errors.Is(err, chunk.ErrUnknownSession) {
				t.Errorf("the session has\n%s, %v", transcript(snap), err)
			}
		})
	}
}

// stallingReader stalls after the first snapshot until another channel is closed.
type stallingReader struct {
	snapshotReader

	loaded, resume chan struct{}
}

func (r stallingReader) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := r.snapshotReader.Snapshot(ctx, s)
	select {
	case <-r.loaded:
	default:
		close(r.loaded)
		<-r.resume
	}
	return snap, err
}

// The input of a sub-agent is that of the call of its parent, whatever the command says: a stalled worker of a deleted run has requested the command, and the
// session has started again with the same ids.
func TestSubagentGetsTheInputOfTheCall(t *testing.T) {
	w := newEnv(t)
	parent, child := w.pausedOnHelper()
	old := child
	old.Input, old.Params = []chunk.InputMessage{{Content: "deleted"}}, chunk.Value(`{"message":"deleted"}`)
	w.take(child)
	w.Request(old)
	w.serve(w.worker(map[string]Agent{"helper": oneStep(func(ctx context.Context, turn *Turn, s *Step) error {
		s.MarkFinal()
		return s.Text(ctx, turn.Input()[0].Content+turn.Params().String())
	})}))
	if got := transcript(w.AwaitStatus(parent.Session, fold.Ended)); !strings.Contains(got, "secret") || strings.Contains(got, "deleted") {
		t.Errorf("the parent has\n%s", got)
	}
}
