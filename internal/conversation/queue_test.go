package conversation

import (
	"testing"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
)

// A message with a mode waits where one without is refused, and behind messages that wait.
func TestDecideQueue(t *testing.T) {
	queued := func(id string, state control.QueuedState, first bool) control.Queued {
		return control.Queued{State: state, First: first, Command: control.Command{RunID: control.ExecuteRunID(testSession, id)}}
	}
	waits := func(all ...control.Queued) func(*State) { return func(state *State) { state.Queue = all } }
	older := queued("u0", control.QueuedWaiting, false)
	running := begin(t).turn("u1")
	idle := begin(t).turn("u1").ends()
	rows := []struct {
		name  string
		mode  dialect.Mode
		state State
		want  Path
		run   string // of the message that starts
	}{
		{"during a run", dialect.ModeQueue, running.state(), PathQueue, ""},
		{"it interrupts a run", dialect.ModeInterrupt, running.state(), PathQueue, ""},
		{"it waits already", dialect.ModeQueue, running.state(waits(queued("u2", control.QueuedWaiting, false))), PathQueued, ""},
		{"it was withdrawn", dialect.ModeQueue, running.state(waits(queued("u2", control.QueuedWithdrawn, false))), PathRefused, ""},
		{"without a run", dialect.ModeQueue, idle.state(), PathExecute, ""},
		{"without a run, behind another message", dialect.ModeQueue, idle.state(waits(older)), PathStartQueued, "u0"},
		{"its turn", dialect.ModeQueue, idle.state(waits(queued("u2", control.QueuedWaiting, false))), PathStartQueued, "u2"},
		{"the one that interrupts is first", dialect.ModeQueue, idle.state(waits(older, queued("u3", control.QueuedWaiting, true))), PathStartQueued, "u3"},
		{"the one that is taken is first", dialect.ModeQueue, idle.state(waits(older, queued("u3", control.QueuedTaken, false))), PathStartQueued, "u3"},
		{"during a question", dialect.ModeQueue, begin(t).turn("u1").asks("a1").state(), PathQueue, ""},
		{"it interrupts a question", dialect.ModeInterrupt, begin(t).turn("u1").asks("a1").state(), PathAbandon, ""},
		{"while sub-agents work", dialect.ModeQueue, begin(t).turn("u1").delegates().state(), PathQueue, ""},
		{"it steers a run", dialect.ModeSteer, running.state(), PathQueue, ""},
		{"it steers after a run", dialect.ModeSteer, idle.state(), PathExecute, ""},
		{"it steers during a question", dialect.ModeSteer, begin(t).turn("u1").asks("a1").state(), PathQueue, ""},
		{"it steers while sub-agents work", dialect.ModeSteer, begin(t).turn("u1").delegates().state(), PathQueue, ""},
		{"it interrupts sub-agents", dialect.ModeInterrupt, begin(t).turn("u1").delegates().state(), PathQueue, ""},
	}
	for _, row := range rows {
		req := post(t, "", "u2")
		req.Mode = row.mode
		plan := Decide(req, row.state)
		if plan.Path != row.want {
			t.Errorf("%s: %s, want %s", row.name, plan.Path, row.want)
		}
		if plan.Path == PathQueue && plan.Queued.Steers != (row.mode == dialect.ModeSteer) {
			t.Errorf("%s: stored as %+v", row.name, plan.Queued)
		}
		if row.run != "" && (plan.Queued == nil || plan.Queued.Command.RunID != control.ExecuteRunID(testSession, row.run)) {
			t.Errorf("%s: starts %+v, want %s", row.name, plan.Queued, row.run)
		}
	}
}
