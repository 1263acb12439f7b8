package workers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// silentSession makes the last record of a session one that was written an hour ago.
type silentSession struct {
	lastReader

	id string
}

func (s silentSession) Last(ctx context.Context, of chunk.Session) (chunk.Record, error) {
	rec, err := s.lastReader.Last(ctx, of)
	if of.ID == s.id {
		rec.StoredAt = rec.StoredAt.Add(-time.Hour)
	}
	return rec, err
}

// smallTree is a run with a sub-agent that did not come by the queue.
type smallTree struct {
	root, child     *producers.Run
	parent, session chunk.Session
}

// smallTree starts a sub-agent as an agent does that calls Run.Child, or as tailrace publish does.
func (w *env) smallTree(published bool) smallTree {
	w.t.Helper()
	s, root := w.orphan(producers.AgentType("agent"))
	f := smallTree{root: root, parent: s, session: s.Child(s.ID + "-child")}
	var err error
	if published {
		f.child, err = w.NewWriter(producers.Config{}).Start(w.t.Context(), f.session, chunk.RunStarted{})
	} else {
		f.child, err = root.Child(w.t.Context(), chunk.SubagentStart{SubAgentType: "helper", SubSessionID: f.session.ID, CallID: "c"}, chunk.RunStarted{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.child.Write(w.t.Context(), chunk.Chunk{AgentID: f.session.ID, AgentType: "helper", Timestamp: 1, Body: chunk.TextDelta{Delta: "I am "}}); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// The records of a tree show that its runs have writers: a run waits silently for its sub-agent, and a sub-agent for its model while the run writes.
func TestTheHeartbeatIsThatOfTheTree(t *testing.T) {
	w := newEnv(t)
	for _, published := range []bool{false, true} {
		f := w.smallTree(published)
		for name, silent := range map[string]chunk.Session{"the run": f.parent, "the sub-agent": f.session} {
			r := w.reaper(ReaperConfig{RunTimeout: 10 * time.Minute})
			open := r.open
			r.open = func() (*Workers, func(), error) {
				ws, release, err := open()
				ws.last = silentSession{ws.last, silent.ID}
				return ws, release, err
			}
			if abandoned, err := r.IsAbandoned(t.Context(), silent); abandoned || err != nil {
				t.Errorf("published %t: %s is silent: abandoned %t, %v", published, name, abandoned, err)
			}
			if ended, err := r.Abandon(t.Context(), silent, false); ended || err != nil {
				t.Errorf("published %t: %s is silent: ended %t, %v", published, name, ended, err)
			}
		}
	}
}

// A sub-agent that did not come by the queue is left to its writer while a run above it is paused or has a worker, however long the tree is silent. The sweep
// ends it when no run above it lives.
func TestALiveRunProtectsItsSubAgents(t *testing.T) {
	for _, published := range []bool{false, true} {
		for name, test := range map[string]struct {
			root func(*env, smallTree) error
			want fold.Status // of the sub-agent after the sweep
		}{
			"paused": {func(w *env, f smallTree) error { return f.root.Pause(w.t.Context(), "approval") }, fold.Active},
			"with a worker": {func(w *env, f smallTree) error {
				c := execute(f.parent.ID, "agent", "Hello?")
				w.Request(c)
				return nil
			}, fold.Active},
			"ended":            {func(w *env, f smallTree) error { return f.root.End(w.t.Context(), nil) }, fold.Failed},
			"without a worker": {func(*env, smallTree) error { return nil }, fold.Failed},
		} {
			t.Run(fmt.Sprintf("%s, published %t", name, published), func(t *testing.T) {
				w := newEnv(t)
				f := w.smallTree(published)
				if err := test.root(w, f); err != nil {
					t.Fatal(err)
				}
				store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range []chunk.Session{f.parent, f.session} {
					if _, err := projector.Rebuild(t.Context(), store, w.Log, s); err != nil {
						t.Fatal(err)
					}
				}
				r := w.reaper(ReaperConfig{RunTimeout: time.Nanosecond})
				if abandoned, err := r.IsAbandoned(t.Context(), f.session); err != nil || abandoned != (test.want == fold.Failed) {
					t.Errorf("abandoned %t, %v", abandoned, err)
				}
				if err := r.Sweep(t.Context(), store); err != nil {
					t.Fatal(err)
				}
				if got := w.Snapshot(f.session).Status; got != test.want {
					t.Errorf("the sub-agent is %s, want %s", got, test.want)
				}
				if err := f.child.End(t.Context(), nil); (err == nil) != (test.want == fold.Active) {
					t.Errorf("the writer of the sub-agent: %v", err)
				}
			})
		}
	}
}
