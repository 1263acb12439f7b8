package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/jsusage"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/tracing"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// Workers serves agents over one NATS connection, which it does not own. Any number of processes may serve
// the same agents.
type Workers struct {
	cfg          Config
	queue        queue
	producer     *producers.Producer
	inbox        inboxStore
	reader       snapshotReader
	values       valueReader
	log          recordLog
	last         lastReader
	audit        *audit.Log     // nil in tests
	usage        *jsusage.Meter // nil in tests
	abandonAfter time.Duration  // abandonTimeout, shorter in tests
	stopPoll     time.Duration  // stopPoll, shorter in tests
	restart      wait.Backoff   // restartBackoff, shorter in tests
	suspects     *suspects
	tracer       trace.Tracer
}

// The dependencies, as interfaces for the simulation tests.
type (
	queue interface {
		Serve(ctx context.Context, agentTypes []string, handle jscontrol.Handler) error
		Request(ctx context.Context, c control.Command, after control.Revision) error
		PublishAt(ctx context.Context, c control.Command, at time.Time) error
		Commands(ctx context.Context, s chunk.Session, agentType string) iter.Seq2[control.Command, error]
		StoredBefore(ctx context.Context, before time.Time) iter.Seq2[jscontrol.StoredCommand, error]
		MaxAge(ctx context.Context) (time.Duration, error)
		DeleteSession(ctx context.Context, s chunk.Session) (bool, error)
		Now(ctx context.Context) (time.Time, error)
		SweepTime(ctx context.Context, host func() time.Time) (time.Time, error)
	}
	inboxStore interface {
		Answer(ctx context.Context, a control.Answer) error
		Answers(ctx context.Context, s chunk.Session, run string) ([]control.Answer, error)
		Stop(ctx context.Context, s control.Stop) error
		StopRequest(ctx context.Context, s chunk.Session, run string) (control.Stop, bool, error)
		Watch(s chunk.Session, run string) (hints <-chan struct{}, stop func(), err error)
		Enqueue(ctx context.Context, m control.Queued) error // for users of the simulation
		Queued(ctx context.Context, s chunk.Session) ([]control.Queued, error)
		SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error
		QueuedBefore(ctx context.Context, before time.Time) ([]chunk.Session, error)
	}
	snapshotReader interface {
		Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error)
		StoredPosition(ctx context.Context, s chunk.Session) (at chunk.Position, epoch chunk.Epoch, sessionBytes int64, err error)
	}
	lastReader interface {
		Last(ctx context.Context, s chunk.Session) (chunk.Record, error)
		LastStored(ctx context.Context, s chunk.Session) (time.Time, error)
	}
	recordLog interface {
		Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error]
	}
)

// New returns Workers over js. It sends no request; the streams and buckets must exist when Run or Handle is
// called. The error names the field of cfg that is invalid.
func New(js jetstream.JetStream, cfg Config) (*Workers, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	return open(js, cfg)
}

// open returns Workers with a valid configuration.
func open(js jetstream.JetStream, cfg Config) (*Workers, error) {
	w := &Workers{cfg: cfg, abandonAfter: abandonTimeout, stopPoll: stopPoll, restart: restartBackoff, suspects: newSuspects(), tracer: tracing.Tracer(cfg.TracerProvider)}
	queue, noQueue := jscontrol.NewQueue(js, cfg.queue())
	reader, noReader := consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log})
	store, noStore := jssnapshots.New(js, jssnapshots.Config{Layout: cfg.Layout, Log: cfg.Log})
	box, noInbox := jscontrol.NewInbox(js, jscontrol.InboxConfig{Layout: cfg.Layout})
	events, noAudit := jscontrol.NewAudit(js, cfg.Layout)
	err := cmp.Or(noQueue, noReader, noStore, noInbox, noAudit)
	if err != nil {
		return nil, err
	}
	if w.producer, err = producers.New(js, cfg.producer(jssnapshots.NewPositions(js, cfg.Layout))); err != nil {
		return nil, err
	}
	if w.usage, err = jsusage.NewMeter(js, jsusage.Config{Layout: cfg.Layout, Now: cfg.now, Log: cfg.Log}); err != nil {
		return nil, err
	}
	w.audit = audit.New(audit.Config{Store: events, Mode: audit.Sync, Log: cfg.Log})
	w.queue, w.inbox, w.reader, w.values, w.log, w.last = queue, box, projector.NewReader(store, reader), store, reader, reader
	return w, nil
}

// Run serves the agents until ctx ends, and then returns nil. Running steps may finish within
// Config.ShutdownTimeout; then their runs move to other workers. Run returns an error if the connection is
// closed permanently. It may be called once, and calls Close.
func (w *Workers) Run(ctx context.Context) error {
	types, handle := slices.Sorted(maps.Keys(w.cfg.Agents)), w.handle
	if w.cfg.Observe != nil {
		handle = w.handleObserved
	}
	return errors.Join(w.queue.Serve(ctx, types, handle), w.Close())
}

// Close releases the resources of New, and stores the usage of tokens within three seconds. It is needed only if Run is not
// called.
func (w *Workers) Close() error {
	w.usage.Close()
	return w.producer.Close()
}

// UnstoredTokens returns the number of used tokens that are not stored yet, for a metric: they are stored within seconds, unless
// the server is unavailable. They are lost if the process crashes. See Config.TokensPerDay.
func (w *Workers) UnstoredTokens() int64 { return w.usage.Unstored() }

const (
	busyDelay   = time.Second // before a retry if the session has another active run
	maxAttempts = 8           // at a decision about a session that changes concurrently
)

var (
	errBusy      = errors.New("session has another active run")
	errContended = errors.New("session changed during every attempt")
)

// handle executes one command from the state that the log shows. It implements jscontrol.Handler.
func (w *Workers) handle(ctx context.Context, c control.Command) error {
	agent, ok := w.cfg.Agents[c.AgentType]
	if !ok {
		return control.RetryAfter(busyDelay, fmt.Errorf("agent type %q not served", c.AgentType))
	}
	return w.execute(ctx, &commandJob{w: w, cmd: c, agent: agent, serveCtx: ctx})
}

func (w *Workers) execute(ctx context.Context, j *commandJob) error {
	ctx, end := w.traceCommand(ctx, j.cmd)
	err := w.attempt(ctx, j)
	end(err)
	return err
}

func (w *Workers) attempt(ctx context.Context, j *commandJob) error {
	own, cancel := w.withShutdownTimeout(ctx)
	defer cancel()
	for range maxAttempts {
		err := j.do(own)
		switch {
		case errors.Is(err, producers.ErrPositionMismatch), errors.Is(err, errRetry):
			continue // reload and decide again
		case errors.Is(err, producers.ErrRunning):
			// Another worker has started the run, and the command stays with that worker: it must not be
			// retried here.
			return fmt.Errorf("%w: %w", chunk.ErrFenced, err)
		case errors.Is(err, errBusy):
			return control.RetryAfter(busyDelay, err)
		}
		return err
	}
	return control.RetryAfter(busyDelay, errContended)
}

// errRetry: the session was changed by this command, which must reload it and decide again.
var errRetry = errors.New("session reload required")

// commandJob executes one command.
type commandJob struct {
	w        *Workers
	cmd      control.Command
	agent    Agent
	serveCtx context.Context //nolint:containedctx // see Turn

	queuedOnly bool // leave a run that has started to its worker
}

func (j *commandJob) do(ctx context.Context) error {
	snap, err := j.w.snapshot(ctx, j.cmd.Session)
	if err != nil {
		return err
	}
	switch j.cmd.Kind {
	case control.Expire:
		return j.w.expire(ctx, snap, j.cmd)
	case control.Abort:
		return j.abort(ctx, snap)
	}
	phase := runPhase(snap, j.cmd.RunID)
	if phase == phaseNone && lacksStart(snap) {
		phase = phaseRunning
	}
	if j.queuedOnly && phase != phaseNone {
		return nil
	}
	switch phase {
	case phaseNone:
		wanted, err := j.isWanted(ctx, snap)
		if err != nil {
			return err
		}
		if !wanted {
			return j.completeEmpty(ctx, snap)
		}
		return j.startOrResume(ctx, snap)
	case phaseRunning:
		if snap.Run.Mode == modeConclude {
			return j.concludeInterrupted(ctx, snap)
		}
		return j.takeOver(ctx, snap)
	case phaseSuspended:
		return j.w.afterPause(ctx, snap)
	}
	if snap.Run.ID == j.cmd.RunID && snap.Run.Status == fold.RunInterrupted {
		closed, err := j.w.closed(ctx, snap.Session)
		if err != nil {
			return err
		}
		if !closed { // its worker crashed between run_interrupted and the end of the stream
			return j.takeOver(ctx, snap)
		}
	}
	if err := j.w.afterEnd(ctx, snap, j.cmd.RunID); err != nil {
		return err
	}
	return j.completeEmpty(ctx, snap)
}

// isForgotten reports whether the run of the command was removed from the snapshot because many runs followed
// it:
//  1. A worker crashes while it handles a command whose run is suspended.
//  2. The run is resumed and suspended repeatedly, before the command is redelivered.
//  3. Only the log still shows that the run was started.
//
// The log is read only if all remembered runs are younger than the command, with a tolerance for clock skew.
func (j *commandJob) isForgotten(ctx context.Context, snap fold.Snapshot) (bool, error) {
	const clockSkew = time.Minute
	if len(snap.PastRuns) < fold.MaxPastRuns || snap.PastRuns[0].StartedAt < j.cmd.Issued.Add(-clockSkew).UnixMilli() {
		return false, nil
	}
	for rec, err := range j.w.log.Replay(ctx, chunk.Range{Session: snap.Session}) {
		switch {
		case errors.Is(err, chunk.ErrTruncated), errors.Is(err, chunk.ErrUnknownSession):
			return false, nil // the run is younger than the log
		case err != nil:
			return false, err
		case rec.Type != chunk.TypeRunStarted:
			continue
		}
		if b, ok := chunk.BodyOf[chunk.RunStarted](rec); ok && b.RunID == j.cmd.RunID { // the fold skips a malformed one as well
			return true, nil
		}
	}
	return false, nil
}

// closed reports whether the stream of a session has ended. The snapshot of an interrupted run does not show
// it.
func (w *Workers) closed(ctx context.Context, s chunk.Session) (bool, error) {
	last, err := w.last.Last(ctx, s)
	return last.Type.Terminal(), err
}

// lacksStart reports whether a session has an open run whose run_started had left the log before any snapshot had it. It counts as the run of a command of
// the session: a run that waited for another one to end would wait until its command expires.
func lacksStart(snap fold.Snapshot) bool {
	return snap.Run.ID == "" && snap.Run.Status == fold.RunRunning && snap.Faults.Lost > 0
}

// runPhase returns the phase of a run as the snapshot shows it.
func runPhase(snap fold.Snapshot, run string) phase {
	if snap.Run.ID != run {
		for _, past := range snap.PastRuns {
			if past.ID == run {
				return phaseDone
			}
		}
		return phaseNone
	}
	switch snap.Run.Status {
	case fold.RunRunning:
		return phaseRunning
	case fold.RunSuspended:
		return phaseSuspended
	}
	return phaseDone
}

type phase int

const (
	phaseNone phase = iota
	phaseRunning
	phaseSuspended
	phaseDone
)

// withShutdownTimeout returns a context that ends Config.ShutdownTimeout after ctx.
func (w *Workers) withShutdownTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if wait.Sleep(own, w.cfg.ShutdownTimeout) == nil {
			cancel()
		}
	})
	return own, func() {
		stop()
		cancel()
	}
}

// snapshot returns the current snapshot of s, an empty one if s does not exist.
func (w *Workers) snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := w.reader.Snapshot(ctx, s)
	switch {
	case !errors.Is(err, chunk.ErrUnknownSession):
		return snap, err
	case snap.Deleted(): // by a tombstone, or by a deletion record that follows it or is all that the log has
		return snap, nil
	}
	snap = fold.New(s).Snapshot()
	snap.Position, snap.Epoch, snap.SessionBytes, err = w.reader.StoredPosition(ctx, s)
	return snap, err
}

// catchUp applies the records after snap up to at or later. refolded reports that the snapshot was loaded
// again instead.
func (w *Workers) catchUp(ctx context.Context, snap fold.Snapshot, at chunk.Position) (now fold.Snapshot, refolded bool, err error) {
	if snap.Position.Ordinal >= at.Ordinal && snap.Position.Seq >= at.Seq {
		return snap, false, nil
	}
	s := snap.Session
	if snap, ok := w.applyTail(ctx, snap); ok && snap.Position.Ordinal >= at.Ordinal {
		return snap, false, nil
	}
	for delay := 10 * time.Millisecond; ; delay *= 2 {
		snap, err := w.reader.Snapshot(ctx, s)
		if err != nil || snap.Position.Ordinal >= at.Ordinal {
			return snap, true, err
		}
		// The replica that was read lags behind the leader.
		if delay > 5*time.Second || wait.Sleep(ctx, delay) != nil {
			return snap, true, fmt.Errorf("session %s: log replica lags: read up to record %d, want %d", s, snap.Position.Ordinal, at.Ordinal)
		}
	}
}

// applyTail applies the records after snap. It reports false if the log or the fold fails.
func (w *Workers) applyTail(ctx context.Context, snap fold.Snapshot) (fold.Snapshot, bool) {
	if snap.Position.Seq == 0 {
		return snap, false
	}
	f := fold.From(snap)
	for rec, err := range w.log.Replay(ctx, chunk.Range{Session: snap.Session, After: snap.Position}) {
		if err == nil {
			err = f.Apply(rec)
		}
		if err != nil {
			return snap, false
		}
	}
	return f.Snapshot(), true
}
