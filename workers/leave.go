package workers

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// discardedShutdown is the reason of the step_discarded of a worker that shut down. It is stored.
const discardedShutdown = "shutdown"

// leaveTimeout bounds the last write of a worker that shuts down, whose other writes have used up Config.ShutdownTimeout.
const leaveTimeout = 2 * time.Second

// leave records that this worker leaves the run in an orderly shutdown, so that lostWorkers does not count it: otherwise a
// step that is longer than the interval between deployments would fail. Nothing depends on the record but that count.
func (t *Turn) leave(ctx context.Context) {
	if t.final {
		return // there is no other step
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	t.run.SetStep(t.step) // a clean-up removes records of later steps
	err := t.emit(ctx, t.step, chunk.StepDiscarded{RunID: t.cmd.RunID, StepID: stepID(t.cmd.RunID, t.step+1), Reason: discardedShutdown})
	if err == nil {
		_, err = t.run.Flush(ctx)
	}
	if err != nil {
		t.log.WarnContext(ctx, "shutdown not recorded", "error", err)
	}
}
