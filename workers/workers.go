package workers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
)

// Workers serves agents over one NATS connection, which it does not own. Any
// number of processes may serve the same ones.
type Workers struct {
	cfg      Config
	queue    queue
	producer *producers.Producer
	inbox    box
	reader   snapshots
	log      history
	last     ending
	hangs    time.Duration // the constant, but in tests
}

// What is used of the floors below.
type (
	queue interface {
		Serve(ctx context.Context, agentTypes []string, handle commands.Handler) error
		Request(ctx context.Context, c commands.Command, after commands.Revision) error
		PublishAt(ctx context.Context, c commands.Command, at time.Time) error
	}
	box interface {
		Answer(ctx context.Context, a inbox.Answer) error
		Answers(ctx context.Context, s chunk.Session, run string) ([]inbox.Answer, error)
		Stop(ctx context.Context, s inbox.Stop) error
		Stopped(ctx context.Context, s chunk.Session, run string) (inbox.Stop, bool, error)
		Watch(s chunk.Session, run string) (hints <-chan struct{}, stop func(), err error)
	}
	snapshots interface {
		Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error)
		Head(ctx context.Context, s chunk.Session) (chunk.Position, chunk.Epoch, error)
	}
	ending interface {
		Last(ctx context.Context, s chunk.Session) (chunk.Record, error)
	}
	history interface {
		Replay(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error]
	}
)

// New makes Workers over js, which do nothing yet. The streams and buckets must
// be there by the time that they are used.
func New(js jetstream.JetStream, cfg Config) (*Workers, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("workers: %w", err)
	}
	w := &Workers{cfg: cfg, hangs: hangs}
	queue, err := commands.New(js, cfg.Queue)
	if err != nil {
		return nil, err
	}
	reader, err := consumers.New(js.Conn(), js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	store, err := kvstore.New(js, kvstore.Config{Layout: cfg.Layout, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	box, err := inbox.New(js, inbox.Config{Layout: cfg.Layout})
	if err != nil {
		return nil, err
	}
	log := natssource.Log{Reader: reader}
	snapshots := projector.NewReader(store, log)
	if cfg.Producer.Heads == nil {
		cfg.Producer.Heads = snapshots
	}
	if w.producer, err = producers.New(js.Conn(), js, cfg.Producer); err != nil {
		return nil, err
	}
	w.queue, w.inbox, w.reader, w.log, w.last = queue, box, snapshots, log, reader
	return w, nil
}

// Run serves the agents until ctx ends; that is no error. Runs that are under
// way then finish their step, if they can within Config.Grace, and go to other
// workers. It fails when the connection is closed for good. Workers that have
// run are of no further use.
func (w *Workers) Run(ctx context.Context) error {
	types := slices.Sorted(maps.Keys(w.cfg.Agents))
	return errors.Join(w.queue.Serve(ctx, types, w.Handle), w.Close())
}

// Close lets go of what New made. Run does it by itself.
func (w *Workers) Close() error { return w.producer.Close() }

const (
	busyDelay = time.Second // until a session is looked at again that has another run
	tries     = 8           // to decide from a session that moves on meanwhile
)

var (
	errBusy   = errors.New("the session is busy with another run")
	errMoving = errors.New("the session has moved on each time that it was looked at")
)

// Handle does one command, from wherever the last attempt left it. It is the
// commands.Handler that Run serves with, for those who have a queue of their own:
// they heed the errors of that package, commands.Done first of all.
func (w *Workers) Handle(ctx context.Context, c commands.Command) error {
	agent, ok := w.cfg.Agents[c.AgentType]
	if !ok {
		return commands.Later(busyDelay, fmt.Errorf("agent type %q is not served here", c.AgentType))
	}
	own, cancel := w.grace(ctx)
	defer cancel()
	j := &job{w: w, cmd: c, agent: agent, serving: ctx}
	for range tries {
		err := j.do(own)
		switch {
		case errors.Is(err, producers.ErrMoved), errors.Is(err, errAgain):
			continue // decide anew
		case errors.Is(err, producers.ErrRunning):
			// Another worker was quicker to start it. It is not to be disturbed:
			// the command stays with it.
			return fmt.Errorf("%w: %w", chunk.ErrFenced, err)
		case errors.Is(err, errBusy):
			return commands.Later(busyDelay, err)
		}
		return err
	}
	return commands.Later(busyDelay, errMoving)
}

// errAgain: something was put in order, and the session is to be looked at anew.
var errAgain = errors.New("look again")

// job is one command at work.
type job struct {
	w       *Workers
	cmd     commands.Command
	agent   Agent
	serving context.Context //nolint:containedctx // see Turn
}

func (j *job) do(ctx context.Context) error {
	snap, err := j.w.look(ctx, j.cmd.Session)
	if err != nil {
		return err
	}
	switch j.cmd.Kind {
	case commands.Expire:
		return j.w.expire(ctx, snap, j.cmd)
	case commands.Abort:
		return j.abort(ctx, snap)
	}
	switch standing(snap, j.cmd.RunID) {
	case notBegun:
		long, err := j.longOver(ctx, snap)
		if err != nil {
			return err
		}
		if long {
			return j.nothing()
		}
		return j.begin(ctx, snap)
	case atWork:
		return j.takeOver(ctx, snap)
	case atPause:
		return j.w.paused(ctx, snap, j.cmd)
	}
	if snap.Run.ID == j.cmd.RunID && snap.Run.Status == fold.RunInterrupted {
		closed, err := j.w.closed(ctx, snap.Session)
		if err != nil {
			return err
		}
		if !closed { // its worker died between the interruption and the end
			return j.takeOver(ctx, snap)
		}
	}
	if err := j.w.ended(ctx, snap, j.cmd.RunID); err != nil {
		return err
	}
	return j.nothing()
}

// longOver reports whether the run of the command is one that the snapshot has
// forgotten, because many have followed:
//  1. a worker dies over a command whose run has paused,
//  2. the run goes on and pauses, time and again, faster than the command comes back,
//  3. nothing tells that it was ever begun, but the log.
//
// The log is only asked if all the runs that are remembered are as young as that,
// whatever the clocks say.
func (j *job) longOver(ctx context.Context, snap fold.Snapshot) (bool, error) {
	const clocks = time.Minute // differ by less
	if len(snap.Past) < fold.MaxPast || snap.Past[0].Began < j.cmd.Issued.Add(-clocks).UnixMilli() {
		return false, nil
	}
	for rec, err := range j.w.log.Replay(ctx, snap.Session, chunk.Position{}) {
		switch {
		case errors.Is(err, chunk.ErrTruncated), errors.Is(err, chunk.ErrUnknownSession):
			return false, nil // what is that old was not begun a minute ago
		case err != nil:
			return false, err
		case rec.Type != chunk.TypeRunStarted:
			continue
		}
		c, err := rec.Decode()
		if err != nil {
			continue // the fold has passed over it as well
		}
		if b, ok := c.Body.(chunk.RunStarted); ok && b.RunID == j.cmd.RunID {
			return true, nil
		}
	}
	return false, nil
}

// closed reports whether the stream of a session has ended, which the snapshot of
// an interrupted run does not tell.
func (w *Workers) closed(ctx context.Context, s chunk.Session) (bool, error) {
	last, err := w.last.Last(ctx, s)
	return last.Type.Terminal(), err
}

// standing is how far the log says that a run is.
func standing(snap fold.Snapshot, run string) place {
	if snap.Run.ID != run {
		for _, past := range snap.Past {
			if past.ID == run {
				return isOver
			}
		}
		return notBegun
	}
	switch snap.Run.Status {
	case fold.RunRunning:
		return atWork
	case fold.RunSuspended:
		return atPause
	}
	return isOver
}

type place int

const (
	notBegun place = iota
	atWork
	atPause
	isOver
)

// grace is a context that outlives ctx by Config.Grace.
func (w *Workers) grace(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(max(0, w.cfg.Grace))
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-own.Done():
		}
	})
	return own, func() {
		stop()
		cancel()
	}
}

// look is the session as of now, empty when there is none.
func (w *Workers) look(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := w.reader.Snapshot(ctx, s)
	if !errors.Is(err, chunk.ErrUnknownSession) {
		return snap, err
	}
	// One that was deleted has left its place behind.
	snap = fold.New(s)
	snap.Position, snap.Epoch, err = w.reader.Head(ctx, s)
	return snap, err
}

// catchUp is snap, which it consumes, with what the log has behind it, through
// at the least. Anew says that the session was folded anew.
func (w *Workers) catchUp(ctx context.Context, snap fold.Snapshot, at chunk.Position) (now fold.Snapshot, anew bool, err error) {
	if snap.Position.Ordinal >= at.Ordinal && snap.Position.Seq >= at.Seq {
		return snap, false, nil
	}
	s := snap.Session
	if snap, ok := w.follow(ctx, snap); ok && snap.Position.Ordinal >= at.Ordinal {
		return snap, false, nil
	}
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		snap, err := w.reader.Snapshot(ctx, s)
		if err != nil || snap.Position.Ordinal >= at.Ordinal {
			return snap, true, err
		}
		// What is read is behind what is stored: a replica that lags.
		if wait > 5*time.Second || !pause(ctx, wait) {
			return snap, true, fmt.Errorf("session %s: the log reads up to record %d, and %d is stored", s, snap.Position.Ordinal, at.Ordinal)
		}
	}
}

// follow folds record by record; false when that leads nowhere.
func (w *Workers) follow(ctx context.Context, snap fold.Snapshot) (fold.Snapshot, bool) {
	if snap.Position.Seq == 0 {
		return snap, false
	}
	for rec, err := range w.log.Replay(ctx, snap.Session, snap.Position) {
		if err != nil {
			return snap, false
		}
		if snap, err = fold.Apply(snap, rec); err != nil {
			return snap, false
		}
	}
	return snap, true
}

// pause waits for d, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
