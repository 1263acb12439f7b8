package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// CodeRunCrashed is the code of a run that fails because too many workers crashed in one of its steps.
const CodeRunCrashed = "run_crashed"

const defaultMaxTakeovers = 3

// restartBackoff delays the agent of a run that lost several workers in the same step.
var restartBackoff = wait.Backoff{First: time.Second, Max: 10 * time.Second}

// lostWorkers returns the number of workers that died since the last committed step of the run of snap, which is taken over
// now: 1 for the first takeover. The log has it: each takeover writes run_started with the mode takeover; one that has left the log is not counted. A worker that
// left the run in an orderly shutdown is not counted, see Turn.leave. The result is 0 without a limit of takeovers.
func (j *commandJob) lostWorkers(ctx context.Context, snap fold.Snapshot) (int, error) {
	if j.w.cfg.MaxTakeovers < 0 {
		return 0, nil
	}
	lost, left := 0, false // left: by the last worker so far
	takeover := func() {
		if !left {
			lost++
		}
		left = false
	}
	for rec, err := range j.w.replayRun(ctx, snap.Session, snap.Run.StartSeq, new(bool)) {
		if err != nil {
			return 0, fmt.Errorf("takeover: count lost workers: %w", err)
		}
		switch rec.Type {
		case chunk.TypeStepCommitted, chunk.TypeRunResumed:
			lost, left = 0, false
			continue
		case chunk.TypeRunStarted, chunk.TypeStepDiscarded:
		default:
			continue
		}
		c, err := rec.Decode()
		if err != nil {
			continue // the fold skips it as well
		}
		switch b := c.Body.(type) {
		case chunk.RunStarted:
			if b.RunID == snap.Run.ID && b.Mode == modeTakeover {
				takeover()
			}
		case chunk.StepDiscarded:
			left = left || b.RunID == snap.Run.ID && b.Reason == discardedShutdown
		}
	}
	takeover()
	return lost, nil
}

// errRunCrashed fails a run after too many takeovers.
func errRunCrashed(lostWorkers int) *Error {
	return &Error{
		Message: "the run crashed its worker several times", Code: CodeRunCrashed, Category: "run",
		Cause: fmt.Errorf("%d workers lost since the last committed step", lostWorkers),
	}
}

// delayRestart waits before the agent is called again. A stop request ends the wait and the run.
func (t *Turn) delayRestart(ctx context.Context) error {
	if t.restartDelay == 0 || wait.Sleep(ctx, t.restartDelay) == nil {
		return nil
	}
	return errors.Join(t.checkStop(t.writeCtx), ctx.Err())
}
