package projector

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// session is one session in the memory of a Runner.
type session struct {
	*Runner

	id chunk.Session

	// The loop owns these fields.
	state        sessionState
	element      *list.Element
	memoryBytes  int
	inbox        []Delivery // not processed
	inboxBytes   int
	flush        bool // the next attempt saves
	taken        int  // length of unacked, and what the running attempt has taken from inbox
	takenBytes   int  // of what it has taken
	counted      int  // in the sum of the Runner
	countedBytes int  // in the Budget

	// The chunk.Record.SessionBytes of the last delivery, of the last one that the running attempt has taken, and of the last one in the fold in memory; and what the
	// attempt has taken of the Budget.
	bytes, takenThrough, foldedThrough int64
	large                              int

	// The running attempt owns these fields, and the loop while there is none.
	fold applier

	loaded        bool // folder and revision are valid
	proved        bool // the log has the records that folder was loaded with
	folder        *fold.Folder
	revision      Revision
	stored        storedState   // state of the stored head
	triedOrdinal  chunk.Ordinal // position of the last attempt to save
	triedBytes    int64         // likewise, its chunk.Record.SessionBytes
	savePointSeen bool          // see isSavePoint; since then

	lastDelivery   time.Time      // time of the last delivery
	unacked        []Delivery     // taken from inbox and not acknowledged; without the data of their records
	unackedThrough chunk.Position // last record of unacked: a snapshot that contains it contains them all
	unackedSince   time.Time      // when the first of unacked was added
	traces         []string       // traceparents of unacked, for the span of the save
	failures       int            // consecutive failed attempts
	retryAt        time.Time      // earliest time of the next attempt after a failure
}

// storedState identifies a stored snapshot. The position alone does not: after the log was rolled back, other records have
// the same positions.
type storedState struct {
	position chunk.Position
	anchor   chunk.Anchor
	epoch    chunk.Epoch
}

func stateOf(s fold.Snapshot) storedState { return storedState{s.Position, s.Anchor, s.Epoch} }

// unload makes the next attempt load the session again.
func (s *session) unload() { s.loaded, s.folder = false, nil }

// wait returns the time until the next save is due; false if there is nothing to save.
func (s *session) wait() (time.Duration, bool) {
	if len(s.unacked) == 0 {
		return 0, false
	}
	if s.failures > 0 {
		return time.Until(s.retryAt), true
	}
	return time.Until(s.unackedSince.Add(s.cfg.SaveAfter)), true
}

// fail makes the next attempt load the session and read the log, after a delay that grows.
func (s *session) fail() {
	s.unload()
	s.failures++
	s.retryAt = time.Now().Add(min(s.cfg.StallTimeout, minPause<<min(s.failures, 20)))
	s.unacked = s.ackInner(s.unacked)
}

// backsOff reports whether the session waits for its retry.
func (s *session) backsOff() bool { return s.failures > 0 && time.Now().Before(s.retryAt) }

// maxInboxBytes bounds the deliveries that wait while an attempt runs, and the records between two saves, which each reader folds: of 200 large records it would refuse
// them all.
const maxInboxBytes = 8 << 20

// enqueue adds a delivery to the inbox.
func (s *session) enqueue(d Delivery) {
	s.inbox = append(s.inbox, d)
	s.inboxBytes += len(d.Record.Data)
	s.bytes = max(s.bytes, d.Record.SessionBytes)
	s.boundInbox()
}

// takeInbox returns what an attempt has to do.
func (s *session) takeInbox() (inbox []Delivery, flush bool) {
	inbox, flush = s.inbox, s.flush
	s.taken += len(inbox)
	s.takenBytes, s.takenThrough = s.inboxBytes, s.bytes
	s.inbox, s.inboxBytes, s.flush = nil, 0, false
	return inbox, flush
}

// boundInbox bounds the memory of a session that is slow or waits for its retry: the fold reads the records between the first and
// the last delivery from the log.
func (s *session) boundInbox() {
	switch {
	case s.state == idle && s.backsOff():
	case s.state != idle && s.inboxBytes > maxInboxBytes:
	default:
		return
	}
	s.shrinkInbox()
}

// shrinkInbox keeps the first and the last delivery of the inbox.
func (s *session) shrinkInbox() {
	s.inbox, s.inboxBytes = s.ackInner(s.inbox), 0
	for _, d := range s.inbox {
		s.inboxBytes += len(d.Record.Data)
	}
}

// ackInner acknowledges all of the deliveries but those with the lowest and the highest sequence, which it returns. They are
// enough to save the session, in this process or another one: the last one makes the fold read the log up to it. The first one
// keeps the position of the Source, and with it the lag, true.
//
// Without it, each redelivery of the records of a session that cannot be saved would be kept, and at the limit of the Source its
// records would stop the other sessions of the partition.
func (s *session) ackInner(deliveries []Delivery) []Delivery {
	if len(deliveries) < 3 {
		return deliveries
	}
	bySeq := func(a, b Delivery) int { return cmp.Compare(a.Record.Seq, b.Record.Seq) }
	ends := []Delivery{slices.MinFunc(deliveries, bySeq), slices.MaxFunc(deliveries, bySeq)}
	for _, d := range deliveries {
		if d.Record.Seq != ends[0].Record.Seq && d.Record.Seq != ends[1].Record.Seq {
			s.ack(d)
		}
	}
	return ends
}

func (s *session) ack(d Delivery) {
	if err := d.Acker.Ack(); err != nil {
		s.cfg.Log.Debug("delivery ack failed", slog.String("session", s.id.String()), slog.Any("error", err))
	}
}

// maxIdle is how long a cached session is trusted without a delivery. Without this limit:
//  1. A session stays cached while its log and its stored snapshot expire.
//  2. The session starts again at ordinal 1.
//  3. The Runner folds the new records onto the cached snapshot, and finds only when it saves that the stored one is gone.
const maxIdle = time.Hour

// process folds the deliveries of an inbox and saves the session if flush is set or a save is due.
func (s *session) process(ctx context.Context, inbox []Delivery, flush bool) error {
	if len(s.unacked) == 0 && time.Since(s.lastDelivery) > maxIdle {
		s.unload()
	}
	if len(inbox) > 0 {
		s.lastDelivery = time.Now()
	}
	for _, d := range inbox {
		s.addUnacked(d)
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := s.prove(ctx); err != nil {
		return err
	}
	for _, d := range inbox {
		if err := s.fold.apply(ctx, s.folder, d.Record); err != nil {
			return err
		}
		s.savePointSeen = s.savePointSeen || isSavePoint(d.Record.Type) || d.Record.SessionBytes >= s.triedBytes+maxInboxBytes
	}
	at := s.folder.Position().Ordinal
	startedAgain := at < s.triedOrdinal // the ordinals, or the fold
	wait, pending := s.wait()
	if flush || s.savePointSeen || pending && wait <= 0 || startedAgain || at >= s.triedOrdinal+chunk.Ordinal(s.cfg.SaveRecords) {
		return s.save(ctx)
	}
	return nil
}

// isSavePoint reports whether a save should follow a record: the status that a list of sessions shows has changed, or no more
// records follow for a while. The end of a step is none. In a session with a record every half second, a save costs as much
// processor time as the delivery of its record.
func isSavePoint(t chunk.Type) bool {
	switch t {
	case chunk.TypeRunStarted, chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeStreamPaused, chunk.TypeTruncated, chunk.TypeSessionForked:
		return true
	}
	return false
}

func (s *session) addUnacked(d Delivery) {
	if len(s.unacked) == 0 {
		s.unackedSince = time.Now()
	}
	if d.Record.Seq > s.unackedThrough.Seq {
		s.unackedThrough = d.Record.Position()
	}
	s.addTrace(d.TraceParent)
	d.Record.Data = nil
	s.unacked = append(s.unacked, d)
}

// load loads the stored head, unless it is cached. After a failure it also reads the log, because the earlier deliveries are no
// longer in memory.
func (s *session) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	head, revision, err := s.store.Load(ctx, s.id)
	switch {
	case errors.Is(err, ErrNoSnapshot):
		head, revision = fold.New(s.id).Snapshot(), 0
	case replaceable(err):
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "session refold started", slog.String("session", s.id.String()), slog.Any("reason", err))
		head = fold.New(s.id).Snapshot()
	case err != nil:
		return err
	}
	s.folder, s.revision, s.stored, s.triedOrdinal, s.triedBytes = fold.From(head), revision, stateOf(head), head.Position.Ordinal, head.SessionBytes
	s.proved = false
	if s.failures > 0 {
		if err := s.fold.catchUp(ctx, s.folder); err != nil {
			return err
		}
	}
	s.loaded = true
	return nil
}

// prove refolds a session whose stored head was folded from records that the log does not have any more. Without it:
//  1. A head with records 1 to 9 is saved; a server loses power, and the log ends at record 5.
//  2. A writer appends other records 6 to 9. The Runner ignores them, because the head has them already.
//  3. Record 10 follows the head, and the snapshot contains the lost records and not the new ones.
//
// While the log cannot tell, it is read in order, and the next batch of deliveries asks again. Without that:
//  1. A head with records 1 and 2 is saved, and both expire. A writer that does not know them appends other records 1 to 9.
//  2. Record 3 is delivered first. It follows the head, and the new records 1 and 2 are taken for those of the head.
func (s *session) prove(ctx context.Context) (err error) {
	if s.proved || s.folder.Anchor() == 0 || s.folder.Position() != s.stored.position {
		return nil
	}
	s.proved, err = s.log.HasRecord(ctx, s.id, s.stored.position, s.stored.anchor)
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated && truncated.Reason == chunk.TruncatedRecreated:
	case err == nil && !s.proved:
		return s.fold.catchUp(ctx, s.folder)
	default:
		return err
	}
	s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "session refold started", slog.String("session", s.id.String()), slog.Any("reason", err))
	*s.folder = *fold.New(s.id)
	s.proved = true
	return s.fold.catchUp(ctx, s.folder)
}

// save stores the snapshot and then acknowledges the deliveries that it contains. If another Runner has replaced the head, save
// loads it and folds the rest of the log onto it. If all attempts end in a conflict, the deliveries stay unacknowledged and
// save returns no error: the session will be saved later, and each conflict means that the other Runner made progress.
func (s *session) save(ctx context.Context) error {
	for try := range maxLoads {
		if err := pause(ctx, try); err != nil {
			return err
		}
		if err := s.load(ctx); err != nil {
			return err
		}
		snap := s.folder.Snapshot()
		if stateOf(snap) == s.stored {
			return s.acknowledge()
		}
		s.triedOrdinal, s.triedBytes, s.savePointSeen = snap.Position.Ordinal, snap.SessionBytes, false
		start := time.Now()
		revision, err := s.store.Save(ctx, snap, s.revision)
		switch {
		case err == nil:
			s.stats.saved.Add(1)
			s.cfg.Observe.Saved(s.folder.MemoryBytes(), time.Since(start))
			s.revision, s.stored = revision, stateOf(snap)
			s.folder.Trim()
			s.endTrace(ctx)
			return s.acknowledge()
		case errors.Is(err, ErrTooLarge):
			return s.ackUnsaved(ctx, err)
		case !errors.Is(err, ErrConflict):
			return err
		}
		s.stats.conflicts.Add(1)
		s.cfg.Observe.Conflict()
		s.loaded = false
		if err := s.load(ctx); err != nil { // the head that the other Runner saved
			return err
		}
		if err := s.fold.catchUp(ctx, s.folder); err != nil {
			return err
		}
	}
	s.unackedSince = time.Now()
	return nil
}

// ackUnsaved acknowledges a snapshot that the store cannot hold. Nothing is lost: the stored head stays, and readers fold the
// log onto it.
func (s *session) ackUnsaved(ctx context.Context, err error) error {
	s.stats.tooLarge.Add(1)
	s.cfg.Log.LogAttrs(ctx, slog.LevelError, "snapshot save failed: too large", slog.String("session", s.id.String()), slog.Any("error", err))
	return s.acknowledge()
}

// acknowledge acknowledges the deliveries that the snapshot contains. If an Ack fails the record is redelivered, which changes
// nothing.
func (s *session) acknowledge() error {
	if at := s.folder.Position(); !isContained(at, s.unackedThrough) {
		return fmt.Errorf("session %s: the log ends at record %d, but %d was delivered", s.id, at.Ordinal, s.unackedThrough.Ordinal)
	}
	for _, d := range s.unacked {
		s.ack(d)
	}
	s.unacked, s.unackedThrough = nil, chunk.Position{}
	if s.folder.Snapshot().Deleted() {
		// A tombstone expires, and then the session starts again at ordinal 1. A cached session would ignore those records.
		s.unload()
	}
	return nil
}

// maxDeadLetterAttempts is the number of consecutive failures after which a record is skipped without a dead letter: an
// operator may have deleted the stream of dead letters.
const maxDeadLetterAttempts = 5

// addDeadLetter reports a record that cannot be folded.
func (s *session) addDeadLetter(ctx context.Context, rec chunk.Record, reason string) error {
	attrs := []slog.Attr{
		slog.String("session", rec.Session.String()), slog.Uint64("sequence", uint64(rec.Seq)),
		slog.String("type", string(rec.Type)), slog.String("reason", reason),
	}
	if s.cfg.DeadLetter != nil {
		err := s.cfg.DeadLetter.Add(ctx, rec, reason)
		if err != nil && s.failures < maxDeadLetterAttempts {
			return fmt.Errorf("dead letter: %w", err)
		}
		if err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "dead letter add failed", append(attrs, slog.Any("error", err))...)
		}
	}
	s.stats.skipped.Add(1)
	if more, ok := s.skips.Allow(); ok {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "record skipped: fold failed", append(attrs, slog.Int64("notLogged", more))...)
	}
	return nil
}
