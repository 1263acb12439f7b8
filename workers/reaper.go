package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/subjects"
)

// Reaper ends runs that no worker ends. It serves no agents and holds no resources; its methods may be called
// concurrently, in any number of processes. Every end is a record of a new writer by compare-and-set with the state
// that the Reaper has read: a worker that is only slow is fenced, and its next write returns chunk.ErrFenced.
type Reaper struct {
	open func() (w *Workers, release func(), err error)
}

// ReaperConfig configures a Reaper. The zero ReaperConfig is ready for production.
type ReaperConfig struct {
	// Layout names the subjects, streams and buckets. All programs of one deployment use the same Layout.
	Layout subjects.Layout

	// Log gets the runs that were ended, and failures. Nil disables logging.
	Log *slog.Logger
}

// NewReaper returns a Reaper over js. It sends no request. The error names the field of cfg that is invalid.
func NewReaper(js jetstream.JetStream, cfg ReaperConfig) (*Reaper, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	return &Reaper{open: func() (*Workers, func(), error) {
		w, err := open(js, Config{Layout: cfg.Layout, Log: cfg.Log}.withDefaults())
		if err != nil {
			return nil, nil, err
		}
		return w, func() { _ = w.Close() }, nil
	}}, nil
}

// Withdraw starts the run of a command that no worker has started, and ends it as its stop request says. The input of
// the command is in the log then, and the next command of the session can be requested after it. A command whose run
// has started is left to its worker.
func (r *Reaper) Withdraw(ctx context.Context, c control.Command) error {
	if c.Kind != control.Execute && c.Kind != control.Resume {
		return nil
	}
	withdrawn := AgentFunc(func(context.Context, *Turn) error { // called if the stop request is missing
		return &Error{Message: "run withdrawn before its start", Code: CodeAborted}
	})
	return r.end(ctx, commandJob{cmd: c, agent: withdrawn, queuedOnly: true})
}

// end executes a job. An error that leaves the run to a worker is not returned.
func (r *Reaper) end(ctx context.Context, j commandJob) error {
	w, release, err := r.open()
	if err != nil {
		return err
	}
	defer release()
	j.w, j.serveCtx = w, ctx
	err = w.execute(ctx, &j)
	done, ended := errors.AsType[control.AfterAck](err)
	switch {
	case ended && done.Func != nil:
		return done.Func(ctx)
	case ended, errors.Is(err, chunk.ErrFenced), errors.Is(err, errBusy):
		return nil
	}
	return err
}
