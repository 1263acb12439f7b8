package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// CodeRunCrashed is the code of a run that fails because too many workers crashed in one of its steps.
const CodeRunCrashed = "run_crashed"

const defaultMaxTakeovers = 3

// restartBackoff delays the agent of a run that was taken over before in the same step.
var restartBackoff = wait.Backoff{First: time.Second, Max: 10 * time.Second}

// maxSuspectWait is how long a run that may have crashed its worker waits for another such run in this process.
const maxSuspectWait = 30 * time.Second

// takeovers returns how often the run of snap was taken over since its last committed step. The log has the number:
// each takeover writes run_started with the mode takeover. A worker that shuts down in a step counts too.
func (j *commandJob) takeovers(ctx context.Context, snap fold.Snapshot) (int, error) {
	if j.w.cfg.MaxTakeovers < 0 {
		return 0, nil
	}
	n := 0
	for rec, err := range j.w.log.Replay(ctx, chunk.Range{Session: snap.Session, After: chunk.Position{Seq: snap.Run.StartSeq}}) {
		if err != nil {
			return 0, fmt.Errorf("takeover: count takeovers: %w", err)
		}
		switch rec.Type {
		case chunk.TypeStepCommitted, chunk.TypeRunResumed:
			n = 0
		case chunk.TypeRunStarted:
			c, err := rec.Decode()
			if err != nil {
				continue // the fold skips it as well
			}
			if b, ok := c.Body.(chunk.RunStarted); ok && b.RunID == snap.Run.ID && b.Mode == modeTakeover {
				n++
			}
		}
	}
	return n, nil
}

// awaitSuspect lets one suspect run at a time run in this process: a run that was taken over before in the same step may
// crash this worker too. The other runs of a dead worker wait before they write anything, so its next crash does not
// count against them. Without it:
//  1. Run A crashes worker 1, which also has run B, in a long step. Worker 2 takes both over.
//  2. Run A crashes worker 2, and then worker 3 and 4.
//  3. Run B was taken over as often as run A, and fails with it.
//
// A run is not suspect after its next committed step: release is called there, and may be called again at the end of the
// command.
func (j *commandJob) awaitSuspect() (release func(), err error) {
	limit := time.NewTimer(maxSuspectWait)
	defer limit.Stop()
	select {
	case j.w.suspect <- struct{}{}:
		return sync.OnceFunc(func() { <-j.w.suspect }), nil
	case <-limit.C: // the other one has a long step
		return func() {}, nil
	case <-j.serveCtx.Done():
		return nil, fmt.Errorf("run %s: %w", j.cmd.RunID, ErrStopping)
	}
}

// errRunCrashed fails a run after too many takeovers.
func errRunCrashed(takeovers int) *Error {
	return &Error{
		Message: "the run crashed its worker several times", Code: CodeRunCrashed, Category: "run",
		Cause: fmt.Errorf("%d takeovers since the last committed step", takeovers),
	}
}

// delayRestart waits before the agent is called again. A stop request ends the wait and the run.
func (t *Turn) delayRestart(ctx context.Context) error {
	if t.restartDelay == 0 || wait.Sleep(ctx, t.restartDelay) == nil {
		return nil
	}
	return errors.Join(t.checkStop(t.writeCtx), ctx.Err())
}
