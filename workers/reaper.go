package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Reaper ends runs that no worker ends. It serves no agents and holds no resources; its methods may be called
// concurrently, in any number of processes. Every end is a record of a new writer by compare-and-set with the state
// that the Reaper has read: a worker that is only slow is fenced, and its next write returns chunk.ErrFenced.
type Reaper struct {
	cfg  ReaperConfig
	open func() (w *Workers, release func(), err error)
	host func() time.Time // time.Now, another one in tests
}

// ReaperConfig configures a Reaper. The zero ReaperConfig is ready for production.
type ReaperConfig struct {
	// Layout names the subjects, streams and buckets. All programs of one deployment use the same Layout.
	Layout subjects.Layout

	// RunTimeout is how long the tree of an active run without a command on the queue may have no new record before the run counts as
	// abandoned. It must exceed the longest pause of a writer that is not a worker. Defaults to 10 minutes; Off keeps such runs until
	// they are stopped.
	RunTimeout time.Duration

	// Observe is called for each run that was ended. May be nil.
	Observe func(Reason)

	// Log gets the runs that were ended, and failures. Nil disables logging.
	Log *slog.Logger
}

// Reason is the reason for which a Reaper ended a run.
type Reason string

// The reasons.
const (
	ReasonStopped Reason = "stopped" // by a user, before a worker has started it
	ReasonNoOwner Reason = "owner"   // it was active, without a command and without a record for too long
	ReasonExpired Reason = "expired" // no worker has started it
)

// CodeRunAbandoned is the code of a run that a Reaper has failed.
const CodeRunAbandoned = "run_abandoned"

func (c ReaperConfig) withDefaults() ReaperConfig {
	c.RunTimeout = cmp.Or(c.RunTimeout, 10*time.Minute)
	if c.Observe == nil {
		c.Observe = func(Reason) {}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// NewReaper returns a Reaper over js. It sends no request. The error names the field of cfg that is invalid.
func NewReaper(js jetstream.JetStream, cfg ReaperConfig) (*Reaper, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	cfg = cfg.withDefaults()
	return &Reaper{cfg: cfg, host: time.Now, open: func() (*Workers, func(), error) {
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
	return r.end(ctx, commandJob{cmd: c, agent: withdrawn, queuedOnly: true}, ReasonStopped)
}

// end executes the job of a command that no worker has started. An error that leaves the run to a worker is not returned.
func (r *Reaper) end(ctx context.Context, j commandJob, reason Reason) error {
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
	case err == nil:
		r.ended(ctx, j.cmd, reason)
	}
	return err
}

func (r *Reaper) ended(ctx context.Context, c control.Command, reason Reason) {
	r.cfg.Observe(reason)
	level := slog.LevelWarn
	if reason == ReasonStopped {
		level = slog.LevelInfo // a user did it
	}
	r.cfg.Log.Log(ctx, level, "run ended without a worker", "session", c.Session.String(), "run", c.RunID, "reason", string(reason))
}

// IsAbandoned reports whether the run of a session is active without a command, and its tree without a record for RunTimeout. A sub-agent that did not come by
// the queue is not abandoned while a run above it is paused or has a command.
func (r *Reaper) IsAbandoned(ctx context.Context, s chunk.Session) (bool, error) {
	w, release, err := r.open()
	if err != nil {
		return false, err
	}
	defer release()
	snap, quiet, err := w.quiet(ctx, s)
	if err != nil {
		return false, err
	}
	return r.isTooLong(ctx, w, snap, quiet)
}

func (r *Reaper) isTooLong(ctx context.Context, w *Workers, snap fold.Snapshot, quiet time.Duration) (bool, error) {
	if r.cfg.RunTimeout <= 0 || quiet < r.cfg.RunTimeout {
		return false, nil
	}
	protected, err := w.isProtected(ctx, snap)
	return !protected && err == nil, err
}

// isProtected reports whether a run above a sub-agent is paused or has a command. The writer of the sub-agent is then a program that may be silent for as long, or
// code of an agent. A sub-agent of the queue is not protected: it has a command for as long as it has a worker, and its parent waits for its end.
func (w *Workers) isProtected(ctx context.Context, snap fold.Snapshot) (bool, error) {
	s := snap.Session
	if s.IsRoot() {
		return false, nil
	}
	above := []string{s.Root}
	if p := snap.Run.Parent; p != nil && p.SessionID != s.Root {
		above = []string{p.SessionID, s.Root}
	}
	for _, id := range above {
		parent, err := w.snapshot(ctx, s.Child(id))
		if err != nil || isDelegated(snap, parent) {
			return false, err
		}
		protected := parent.Status == fold.Paused
		if parent.Status == fold.Active {
			protected, err = w.hasCommand(ctx, parent)
		}
		if protected || err != nil {
			return protected, err
		}
	}
	return false, nil
}

// isDelegated reports whether a call of a run of parent has started a sub-agent by the queue.
func isDelegated(snap, parent fold.Snapshot) bool {
	of := snap.Run.Parent
	return of != nil && slices.ContainsFunc(append(slices.Clone(parent.PastRuns), parent.Run), func(run fold.Run) bool {
		return control.SubagentSession(parent.Session, run.ID, of.CallID) == snap.Session
	})
}

// Abandon fails the active run of a session with CodeRunAbandoned if it is abandoned, see IsAbandoned, and
// reports whether it did. Its output is kept, its open calls get an outcome, its sub-agents are stopped, and its parent
// gets the failure. With stopped, the age of the last record does not matter: nothing would read a stop request.
func (r *Reaper) Abandon(ctx context.Context, s chunk.Session, stopped bool) (bool, error) {
	w, release, err := r.open()
	if err != nil {
		return false, err
	}
	defer release()
	for range maxAttempts {
		snap, quiet, err := w.quiet(ctx, s)
		if err != nil || quiet == 0 {
			return false, err
		}
		if !stopped {
			if long, err := r.isTooLong(ctx, w, snap, quiet); !long || err != nil {
				return false, err
			}
		}
		j := commandJob{w: w, serveCtx: ctx, cmd: control.Command{
			Kind: control.Abort, Session: s, AgentType: cmp.Or(snap.AgentType, "agent"), RunID: snap.Run.ID,
		}}
		err = j.abandon(ctx, snap, &Error{Message: "the run has no worker", Code: CodeRunAbandoned, Category: "run", Retryable: true})
		switch {
		case errors.Is(err, producers.ErrPositionMismatch):
			continue // its writer is alive, or another process was first
		case errors.Is(err, chunk.ErrFenced):
			return false, nil // another process ends it
		case err == nil:
			r.ended(ctx, j.cmd, ReasonNoOwner)
		}
		return err == nil, err
	}
	return false, nil
}

// quiet returns the snapshot of a session, and how long its active run has no command and its tree no new record, 0 if it is
// not active or has a command. A run that waits for a sub-agent writes nothing meanwhile, and neither do the other sub-agents. The commands are read after the snapshot, because a command is acknowledged
// after the end of its run: without one then, the run of the snapshot has ended since, which Start detects, or it has no
// worker.
func (w *Workers) quiet(ctx context.Context, s chunk.Session) (fold.Snapshot, time.Duration, error) {
	snap, err := w.snapshot(ctx, s)
	if err != nil || snap.Status != fold.Active {
		return snap, 0, err
	}
	if owned, err := w.hasCommand(ctx, snap); owned || err != nil {
		return snap, 0, err
	}
	last, err := w.last.LastStored(ctx, s)
	if err != nil && !errors.Is(err, chunk.ErrUnknownSession) { // all of its records have left the log: it is silent for longer than they were kept
		return snap, 0, err
	}
	now, err := w.queue.Now(ctx)
	return snap, max(now.Sub(last), 1), err
}

// hasCommand reports whether a command on the queue is that of the active run. The command of another run is not:
//  1. A message is accepted for an idle session, and its command waits.
//  2. A program that does not use the queue starts a run in the session, and dies.
//  3. The worker of the command waits for the end of that run, for as long as the command lives.
//
// A run that is being concluded belongs to the command of the next turn. A command that this build cannot read may be of any run.
func (w *Workers) hasCommand(ctx context.Context, snap fold.Snapshot) (bool, error) {
	for c, err := range w.queue.Commands(ctx, snap.Session, snap.AgentType) {
		switch {
		case errors.Is(err, chunk.ErrInvalid): // no command can have that agent type
			return false, nil
		case errors.Is(err, control.ErrBusy):
			return true, nil
		case err != nil:
			return false, err
		case c.RunID == snap.Run.ID, lacksStart(snap), snap.Run.Mode == modeConclude && opensTurn(c):
			return true, nil
		}
	}
	return false, nil
}

// Heads lists the stored sessions. *jssnapshots.Store implements it.
type Heads interface {
	HeadsSavedBefore(ctx context.Context, before time.Time, limit int, after uint64) ([]projector.ExpiredHead, uint64, error)
}

// sweepBatch is the number of heads that are listed at a time.
const sweepBatch = 500

// Sweep abandons the runs without a worker, and ends the runs of commands that no worker has started by three quarters
// of the age at which they expire: they fail with CodeRunAbandoned, with their input in the log. It resumes suspended runs that have all answers, and starts messages that wait for a run that has ended. It reads the headers of
// all heads. A session that fails does not stop the
// sweep. Ages are by the time of the server; the error is jsclient.ErrClock, and nothing is ended, if that of this host differs by more than a minute.
func (r *Reaper) Sweep(ctx context.Context, heads Heads) error {
	w, release, err := r.open()
	if err != nil {
		return err
	}
	defer release()
	now, err := w.queue.SweepTime(ctx, r.host)
	if err != nil {
		return err
	}
	failed := 0
	err = errors.Join(r.sweepCommands(ctx, w, now, &failed), r.sweepRuns(ctx, w, now, heads, &failed), r.sweepQueued(ctx, w, now, &failed))
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d sessions failed", failed)
	}
	return err
}

func (r *Reaper) sweepRuns(ctx context.Context, w *Workers, now time.Time, heads Heads, failed *int) error {
	for position := uint64(0); ; {
		page, next, err := heads.HeadsSavedBefore(ctx, now.Add(-max(r.cfg.RunTimeout, 0)), sweepBatch, position)
		if err != nil {
			return err
		}
		for _, head := range page {
			var err error
			switch {
			case head.Deleted:
			case head.Status == fold.Active && r.cfg.RunTimeout > 0:
				_, err = r.Abandon(ctx, head.Session, false)
			case head.Status == fold.Paused:
				err = w.sweepSuspended(ctx, head.Session)
			}
			r.report(ctx, head.Session, err, failed)
		}
		if position = next; position == 0 {
			return ctx.Err()
		}
	}
}

// sweepSuspended requests the Resume of a suspended run that has all answers, or its Abort. Usually the process that stores the last
// answer does it, and it may have crashed before; or it has ended a sub-agent without a command, and crashed before it
// stored the answer. A command is redelivered; without one no other process inspects the run, unless a user does.
func (w *Workers) sweepSuspended(ctx context.Context, s chunk.Session) error {
	snap, err := w.snapshot(ctx, s)
	if err != nil || runPhase(snap, snap.Run.ID) != phaseSuspended {
		return err
	}
	open, err := w.unanswered(ctx, snap)
	if err != nil {
		return err
	}
	for _, call := range open {
		if call.Child == nil {
			continue
		}
		child, err := w.snapshot(ctx, s.Child(call.Child.Session))
		switch {
		case err != nil:
		case isTombstone(child):
			err = w.answerDeleted(ctx, snap, call)
		case child.Run.ID == "":
			err = w.startChild(ctx, snap, call) // changes nothing if its command waits for a worker
		case runPhase(child, child.Run.ID) == phaseDone:
			err = w.afterEnd(ctx, child, child.Run.ID)
		}
		if err != nil {
			return err
		}
	}
	return w.continueSuspended(ctx, snap)
}

// commandAge is the age from which on the sweep examines a command.
const commandAge = 2 * time.Minute

// sweepCommands ends the runs of commands that expire soon, and removes the commands of sub-agents that no call waits for, and of messages that the inbox does not
// have: a stalled worker requested them after the deletion of the tree.
func (r *Reaper) sweepCommands(ctx context.Context, w *Workers, now time.Time, failed *int) error {
	maxAge, err := w.queue.MaxAge(ctx)
	if err != nil {
		return err
	}
	expired := AgentFunc(func(context.Context, *Turn) error {
		return &Error{Message: "no worker has started the run in time", Code: CodeRunAbandoned, Category: "run", Retryable: true}
	})
	for c, err := range w.queue.StoredBefore(ctx, now.Add(-commandAge)) {
		if err != nil {
			return err
		}
		if c.Parent != nil || isOfQueue(c.Command) {
			r.report(ctx, c.Session, w.removeUnwanted(ctx, c.Command), failed)
		}
		if expires := maxAge > 0 && !c.Stored.After(now.Add(-maxAge/4*3)); expires && (c.Kind == control.Execute || c.Kind == control.Resume) {
			r.report(ctx, c.Session, r.end(ctx, commandJob{cmd: c.Command, agent: expired, queuedOnly: true}, ReasonExpired), failed)
		}
	}
	return nil
}

// removeUnwanted removes a command that has no run, of a sub-agent that no call waits for or of a message that the inbox does not have.
func (w *Workers) removeUnwanted(ctx context.Context, c control.Command) error {
	snap, err := w.snapshot(ctx, c.Session)
	if err != nil || runPhase(snap, c.RunID) != phaseNone {
		return err
	}
	if isOfQueue(c) {
		if wanted, err := w.isQueued(ctx, c); wanted || err != nil {
			return err
		}
	} else if _, call, err := w.callOf(ctx, c); call != nil || err != nil {
		return err
	}
	_, err = w.queue.DeleteSession(ctx, c.Session)
	return err
}

func (r *Reaper) report(ctx context.Context, s chunk.Session, err error, failed *int) {
	if err == nil || ctx.Err() != nil {
		return
	}
	*failed++
	r.cfg.Log.WarnContext(ctx, "run without a worker not ended", "session", s.String(), "error", err)
}
