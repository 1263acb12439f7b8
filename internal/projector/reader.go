package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// Reader returns up-to-date snapshots. It does not need a Runner. Its methods may be called concurrently and leave no
// goroutines running.
type Reader struct {
	store Store
	log   Log
}

// NewReader returns a Reader of a store and a log.
func NewReader(store Store, log Log) *Reader { return &Reader{store: store, log: log} }

const (
	// maxLoads bounds how often a head and its messages are read when they are inconsistent, for example because a replica
	// lags. Then the log is folded from its start.
	maxLoads = 5

	minPause = 5 * time.Millisecond
)

// Snapshot returns the complete fold of s up to the current end of its log: every record up to its Position and none after it.
// Errors: chunk.ErrUnknownSession if neither the store nor the log has the session;
// *chunk.TruncatedError if records in the middle of the log are missing and no head follows the gap; fold.ErrInconsistent if
// stored messages are missing and the log cannot replace them; those of store and log. If records after the head have expired,
// or there is no head and the start of the log has expired, the snapshot covers what is available and its Faults count the lost
// records.
func (r *Reader) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	var head fold.Snapshot
	for n := range maxLoads {
		if err := pause(ctx, n); err != nil {
			return fold.Snapshot{}, err
		}
		var log replayer
		var err error
		head, _, log, err = r.begin(ctx, s)
		if err != nil {
			return fold.Snapshot{}, err
		}
		snap, err := r.complete(ctx, log, head)
		if !errors.Is(err, fold.ErrInconsistent) {
			return snap, err
		}
	}
	snap, err := r.complete(ctx, r.log, fold.New(s).Snapshot())
	if err == nil && (snap.Faults.Lost > 0 || lacksStart(head, snap.Created)) || errors.Is(err, chunk.ErrUnknownSession) {
		err = fmt.Errorf("session %s: %w, and the log has lost the beginning", s, fold.ErrInconsistent)
	}
	return snap, err
}

// Head is Snapshot without the finished messages, which it does not read: its cost does not depend on the length of the session.
func (r *Reader) Head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	head, _, log, err := r.begin(ctx, s)
	if err != nil {
		return fold.Snapshot{}, err
	}
	f, err := applyTail(ctx, log, head)
	return f.Snapshot(), err
}

// MessagePage returns a part of the conversation of s, of the same moment and as exact as Snapshot. It reads only the stored
// messages of that part, so its cost does not depend on the length of the session. Errors, besides those of Snapshot:
// chunk.ErrUnknownMessage if the session has no message w.Before.
func (r *Reader) MessagePage(ctx context.Context, s chunk.Session, w fold.PageQuery) (*fold.MessagePage, error) {
	for n := range maxLoads {
		if err := pause(ctx, n); err != nil {
			return nil, err
		}
		head, revision, log, err := r.begin(ctx, s)
		if err != nil {
			return nil, err
		}
		page, err := r.page(ctx, log, head, revision, w)
		if !errors.Is(err, fold.ErrInconsistent) {
			return page, err
		}
	}
	snap, err := r.Snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	return snap.MessagePage(w)
}

func (r *Reader) page(ctx context.Context, log replayer, head fold.Snapshot, revision Revision, w fold.PageQuery) (*fold.MessagePage, error) {
	f, err := applyTail(ctx, log, head)
	if err != nil {
		return nil, err
	}
	page, err := f.Snapshot().MessagePage(w)
	if err != nil {
		return nil, err
	}
	for {
		from, to := page.MissingRange()
		if from == to {
			return page, nil
		}
		data, err := r.store.Range(ctx, page.Snapshot(), revision, from, to)
		if err != nil {
			return nil, err
		}
		if err := page.AddMessages(data); err != nil {
			return nil, err
		}
	}
}

// StoredPosition returns the position, epoch and chunk.Record.SessionBytes of the last record in the stored snapshot of s, or zero values if there is
// none. The log may hold later records, or may have expired.
func (r *Reader) StoredPosition(ctx context.Context, s chunk.Session) (at chunk.Position, epoch chunk.Epoch, sessionBytes int64, err error) {
	head, _, err := r.load(ctx, s)
	return head.Position, head.Epoch, head.SessionBytes, err
}

// OwnedByOther is that of the Store.
func (r *Reader) OwnedByOther(ctx context.Context, s chunk.Session, subject string) (bool, error) {
	return r.store.OwnedByOther(ctx, s, subject)
}

// Value is that of the Store.
func (r *Reader) Value(ctx context.Context, s chunk.Session, key string) ([]byte, string, error) {
	return r.store.Value(ctx, s, key)
}

// load returns the stored head, or the snapshot before the first record.
func (r *Reader) load(ctx context.Context, s chunk.Session) (fold.Snapshot, Revision, error) {
	head, revision, err := r.store.Load(ctx, s)
	if isUnusable(err) {
		return fold.New(s).Snapshot(), 0, nil
	}
	return head, revision, err
}

// begin returns the base of a fold and the log to fold onto it: an endOfLog if the log ends where the head does. Most sessions
// are idle, and a request for the last record costs a fraction of a replay after the head. Both are requested at the same time,
// so the head may be newer than the reported end:
//  1. The log returns its last record.
//  2. More records are stored, and a head with them is saved and loaded.
//  3. The two differ, and the log is replayed, as it is if the head lags.
func (r *Reader) begin(ctx context.Context, s chunk.Session) (fold.Snapshot, Revision, replayer, error) {
	type result struct {
		rec chunk.Record
		err error
	}
	lastRecord := make(chan result, 1)
	lastCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		rec, err := r.log.Last(lastCtx, s)
		lastRecord <- result{rec, err}
	}()
	head, revision, err := r.load(ctx, s)
	if err != nil {
		cancel()
	}
	last := <-lastRecord
	unknown := errors.Is(last.err, chunk.ErrUnknownSession)
	switch {
	case err != nil:
		return head, 0, nil, err
	case last.err != nil && !unknown:
		return head, 0, nil, fmt.Errorf("last record of %s: %w", s, last.err)
	case last.rec.Position() == head.Position && last.rec.Epoch == head.Epoch && !unknown && !head.Anchor.Matches(last.rec):
		return fold.New(s).Snapshot(), 0, r.log, nil // the log was rolled back and has other records
	case last.rec.Position() == head.Position && last.rec.Epoch == head.Epoch:
		// Also if neither of them has the session.
		return head, revision, endOfLog{unknown}, nil
	}
	return head, revision, r.log, nil
}

// endOfLog is the log after its last record, or the log of an unknown session.
type endOfLog struct{ unknown bool }

func (l endOfLog) Replay(_ context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		if l.unknown {
			yield(chunk.Record{}, fmt.Errorf("session %s: %w", of.Session, chunk.ErrUnknownSession))
		}
	}
}

// applyTail folds the rest of the log onto a head. It returns chunk.ErrUnknownSession for a session that was deleted and has
// not started again, and for a fork whose first records are not all stored.
func applyTail(ctx context.Context, log replayer, head fold.Snapshot) (*fold.Folder, error) {
	a := applier{log: countedLog{log}}
	f, err := a.continueFrom(ctx, head)
	if err == nil && f.Snapshot().Deleted() {
		return f, fmt.Errorf("session %s, deleted: %w", head.Session, chunk.ErrUnknownSession)
	}
	if err == nil && f.Snapshot().Status == fold.Seeding {
		return f, fmt.Errorf("session %s, incomplete fork: %w", head.Session, chunk.ErrUnknownSession)
	}
	return f, err
}

// complete is applyTail with the messages that were finished before the head.
func (r *Reader) complete(ctx context.Context, log replayer, head fold.Snapshot) (fold.Snapshot, error) {
	f, err := applyTail(ctx, log, head)
	if snap := f.Snapshot(); err != nil || snap.HasAllMessages() {
		return snap, err
	}
	missing, err := r.store.Messages(ctx, f.Snapshot())
	if err == nil {
		err = f.Attach(missing)
	}
	return f.Snapshot(), err
}

// isUnusable reports whether a fold must start at the beginning of the log, because there is no head to start from.
func isUnusable(err error) bool {
	return errors.Is(err, ErrNoSnapshot) || errors.Is(err, fold.ErrVersion) || errors.Is(err, ErrCorrupt)
}

// replaceable reports whether an unusable head may be replaced. The head of a newer build may not, while two builds run at the
// same time:
//  1. The new build saves a head that only it can read.
//  2. The old build gets a record of the session and folds the log from its start.
//  3. Part of the log has expired: records that only the head contained are lost.
//
// The old build waits; the new one gets the record when it owns the partition.
func replaceable(err error) bool { return isUnusable(err) && !errors.Is(err, fold.ErrNewerVersion) }

// pause sleeps before attempt n; it does not sleep before the first one.
func pause(ctx context.Context, n int) error {
	if n == 0 {
		return ctx.Err()
	}
	return wait.Sleep(ctx, minPause<<(n-1))
}
