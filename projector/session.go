package projector

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// session is one session in the memory of a Runner. It belongs to one worker at
// a time, and to the loop between rounds.
type session struct {
	*Runner

	id      chunk.Session
	fold    folder
	place   *list.Element
	weight  int
	counted int // of owed, in the Runner's sum

	loaded   bool // snap and revision are good
	snap     fold.Snapshot
	revision Revision
	saved    savedAt       // the stored head
	tried    chunk.Ordinal // how far it was when a save was last tried
	complete bool          // a step or run ended since then

	touched  time.Time     // when something was last delivered
	inbox    []Delivery    // delivered and not yet looked at
	owed     []Acker       // looked at and not yet acknowledged
	upTo     chunk.Ordinal // highest among them: a snapshot that reaches it holds them all
	since    time.Time     // since when something is owed
	failures int           // works in a row that failed
	retry    time.Time     // not before then, after a failure
}

// savedAt tells whether a snapshot is the stored one: in a log that was set back
// the same position comes again, under a later epoch.
type savedAt struct {
	position chunk.Position
	epoch    chunk.Epoch
}

func stateOf(s fold.Snapshot) savedAt { return savedAt{s.Position, s.Epoch} }

// wait is how long the session may wait for its next save; false when there is
// nothing to save.
func (s *session) wait() (time.Duration, bool) {
	if len(s.owed) == 0 {
		return 0, false
	}
	if s.failures > 0 {
		return time.Until(s.retry), true
	}
	return time.Until(s.since.Add(s.cfg.SaveAfter)), true
}

// fail makes the session be loaded anew, after a pause that grows.
func (s *session) fail() {
	s.loaded, s.snap = false, fold.Snapshot{}
	s.failures++
	s.retry = time.Now().Add(min(s.cfg.Patience, firstPause<<min(s.failures, 20)))
}

// freshness is how long a session that nothing is delivered of is believed to be
// what is stored. Without that:
//  1. a session rests in our memory, and its snapshot expires with everything,
//  2. it begins anew, with ordinals from 1,
//  3. those are below what we remember, so they would change nothing, for ever.
const freshness = time.Hour

// work folds what was delivered and saves when it is time.
func (s *session) work(ctx context.Context) error {
	if len(s.owed) == 0 && time.Since(s.touched) > freshness {
		s.loaded, s.snap = false, fold.Snapshot{}
	}
	s.touched = time.Now()
	inbox := s.inbox
	s.inbox = nil
	for _, d := range inbox {
		s.owe(d)
	}
	if s.failures > 0 && time.Now().Before(s.retry) {
		return nil
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	for _, d := range inbox {
		var err error
		if s.snap, err = s.fold.apply(ctx, s.snap, d.Record); err != nil {
			return err
		}
		s.complete = s.complete || completes(d.Record.Type)
	}
	if wait, _ := s.wait(); s.complete || wait <= 0 || s.snap.Position.Ordinal >= s.tried+chunk.Ordinal(s.cfg.SaveRecords) {
		return s.save(ctx)
	}
	return nil
}

// completes reports whether a record is a good moment for a save: what it ends
// does not change any more.
func completes(t chunk.Type) bool {
	switch t {
	case chunk.TypeStepEnd, chunk.TypeStepCommitted, chunk.TypeCheckpointCreated,
		chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeStreamPaused, chunk.TypeTruncated:
		return true
	}
	return false
}

func (s *session) owe(d Delivery) {
	if len(s.owed) == 0 {
		s.since = time.Now()
	}
	s.owed = append(s.owed, d.Acker)
	s.upTo = max(s.upTo, d.Record.Ordinal)
}

// load gets the stored head, unless it is here already. After a failure it also
// reads the log, because what was delivered before has been forgotten.
func (s *session) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	head, revision, err := s.store.Load(ctx, s.id)
	switch {
	case errors.Is(err, ErrNoSnapshot):
		head, revision = fold.New(s.id), 0
	case replaceable(err):
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "folding a session anew", slog.String("session", s.id.String()), slog.Any("reason", err))
		head = fold.New(s.id)
	case err != nil:
		return err
	}
	s.snap, s.revision, s.saved, s.tried = head, revision, stateOf(head), head.Position.Ordinal
	if s.failures > 0 {
		if s.snap, err = s.fold.catchUp(ctx, s.snap); err != nil {
			return err
		}
	}
	s.loaded = true
	return nil
}

// save stores the snapshot and then acknowledges what it holds. When somebody
// else was faster, theirs is loaded and the rest of the log folded on it. One
// who loses every time stays owing and comes again: to be the slower of two is
// no failure, and the other gets on with each save that it wins.
func (s *session) save(ctx context.Context) error {
	for try := range loads {
		if err := pause(ctx, try); err != nil {
			return err
		}
		if err := s.load(ctx); err != nil {
			return err
		}
		if stateOf(s.snap) == s.saved {
			return s.acknowledge()
		}
		s.tried, s.complete = s.snap.Position.Ordinal, false
		begun := time.Now()
		revision, err := s.store.Save(ctx, s.snap, s.revision)
		switch {
		case err == nil:
			s.stats.saved.Add(1)
			s.cfg.Metrics.saved(s.snap, time.Since(begun))
			s.revision, s.saved = revision, stateOf(s.snap)
			s.snap = s.snap.Release()
			return s.acknowledge()
		case errors.Is(err, ErrTooLarge):
			return s.keep(ctx, err)
		case !errors.Is(err, ErrConflict):
			return err
		}
		s.stats.conflicts.Add(1)
		s.cfg.Metrics.conflict()
		s.loaded = false
		if err := s.reload(ctx); err != nil {
			return err
		}
	}
	s.since = time.Now()
	return nil
}

// reload goes on from what somebody else has saved.
func (s *session) reload(ctx context.Context) error {
	if err := s.load(ctx); err != nil {
		return err
	}
	var err error
	s.snap, err = s.fold.catchUp(ctx, s.snap)
	return err
}

// keep goes on with a snapshot that the store cannot hold. Nothing is lost by
// acknowledging: the previous head stays, and whoever reads folds the log on it.
func (s *session) keep(ctx context.Context, err error) error {
	s.stats.tooLarge.Add(1)
	s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a snapshot could not be saved; the previous one stays", slog.Any("error", err))
	return s.acknowledge()
}

// acknowledge says that what was delivered is in the snapshot. An Ack that
// fails makes its record come again, which changes nothing.
func (s *session) acknowledge() error {
	if s.snap.Position.Ordinal < s.upTo {
		return errors.New("the log ends before what was delivered")
	}
	for _, a := range s.owed {
		if err := a.Ack(); err != nil {
			s.cfg.Log.Debug("a delivery could not be acknowledged", slog.Any("error", err))
		}
	}
	s.owed, s.upTo = nil, 0
	if s.snap.Deleted() {
		// A grave expires, and then the session's ordinals begin anew: here they
		// would be those of long ago.
		s.loaded, s.snap = false, fold.Snapshot{}
	}
	return nil
}

// burials is how many works in a row may fail before a record is passed without
// its letter: somebody may have deleted what keeps the letters.
const burials = 5

// bury reports a record that cannot be folded.
func (s *session) bury(ctx context.Context, rec chunk.Record, reason string) error {
	attrs := []slog.Attr{
		slog.String("session", rec.Session.String()), slog.Uint64("sequence", uint64(rec.Seq)),
		slog.String("type", string(rec.Type)), slog.String("reason", reason),
	}
	if s.cfg.DeadLetter != nil {
		err := s.cfg.DeadLetter.Bury(ctx, rec, reason)
		if err != nil && s.failures < burials {
			return fmt.Errorf("dead letter: %w", err)
		}
		if err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a dead letter could not be kept", append(attrs, slog.Any("error", err))...)
		}
	}
	s.stats.skipped.Add(1)
	s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a record cannot be folded and is passed", attrs...)
	return nil
}
