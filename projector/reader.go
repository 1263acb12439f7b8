package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Reader gives snapshots as of now. It needs no Runner. Its methods may be
// called concurrently; no goroutine outlives them.
type Reader struct {
	store Store
	log   Log
}

// NewReader makes a Reader over a store and the log.
func NewReader(store Store, log Log) *Reader { return &Reader{store: store, log: log} }

const (
	// loads is how often a head and its messages are read when they do not fit
	// together, as when a replica lags. Then the log is folded from its start.
	loads = 5

	firstPause = 5 * time.Millisecond
)

// Snapshot is the fold of s up to the present end of its log, complete, exact:
// every record up to its Position, and nothing beyond. The result is the
// caller's own. Errors: chunk.ErrUnknownSession when neither store nor log has
// the session; *chunk.TruncatedError when records are missing in the middle of
// the log and no head lies behind the hole; fold.ErrTorn when stored messages
// are gone and the log cannot replace them; those of store and log. When the log
// has expired beyond the head, or begins late and there is none, the snapshot
// is of what there is and its Faults say how much is lost.
func (r *Reader) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	for n := range loads {
		if err := pause(ctx, n); err != nil {
			return fold.Snapshot{}, err
		}
		head, _, log, err := r.begin(ctx, s)
		if err != nil {
			return fold.Snapshot{}, err
		}
		snap, err := r.complete(ctx, log, head)
		if !errors.Is(err, fold.ErrTorn) {
			return snap, err
		}
	}
	snap, err := r.complete(ctx, r.log, fold.New(s))
	if err == nil && snap.Faults.Lost > 0 || errors.Is(err, chunk.ErrUnknownSession) {
		err = fmt.Errorf("session %s: %w, and the log has lost the beginning", s, fold.ErrTorn)
	}
	return snap, err
}

// Page is a part of the conversation of s, of the same moment and as exact as
// Snapshot. It reads the stored messages that it needs and no others, so it costs
// the same however long the session is. The errors, beside those of Snapshot:
// chunk.ErrUnknownMessage when there is none before which the window could end.
func (r *Reader) Page(ctx context.Context, s chunk.Session, w fold.Window) (*fold.Page, error) {
	for n := range loads {
		if err := pause(ctx, n); err != nil {
			return nil, err
		}
		head, revision, log, err := r.begin(ctx, s)
		if err != nil {
			return nil, err
		}
		page, err := r.page(ctx, log, head, revision, w)
		if !errors.Is(err, fold.ErrTorn) {
			return page, err
		}
	}
	snap, err := r.Snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	return snap.Page(w)
}

func (r *Reader) page(ctx context.Context, log replays, head fold.Snapshot, revision Revision, w fold.Window) (*fold.Page, error) {
	snap, err := tail(ctx, log, head)
	if err != nil {
		return nil, err
	}
	page, err := snap.Page(w)
	if err != nil {
		return nil, err
	}
	for {
		from, to := page.Needs()
		if from == to {
			return page, nil
		}
		data, err := r.store.Range(ctx, page.At(), revision, from, to)
		if err != nil {
			return nil, err
		}
		if err := page.Add(data); err != nil {
			return nil, err
		}
	}
}

// Head is how far the stored head of s came: the position and the epoch of the
// last record that it holds. Both are zero when there is none. The log may be
// further, or have forgotten.
func (r *Reader) Head(ctx context.Context, s chunk.Session) (chunk.Position, chunk.Epoch, error) {
	head, err := r.head(ctx, s)
	return head.Position, head.Epoch, err
}

func (r *Reader) head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	head, _, err := r.load(ctx, s)
	return head, err
}

// load gives the stored head, or the snapshot before the first record.
func (r *Reader) load(ctx context.Context, s chunk.Session) (fold.Snapshot, Revision, error) {
	head, revision, err := r.store.Load(ctx, s)
	if unusable(err) {
		return fold.New(s), 0, nil
	}
	return head, revision, err
}

// begin gives what the log is to be folded on, and the log: spent if it ends where
// the head does. To ask for the last record costs a fraction of reading behind the
// head, and most sessions rest. Both are asked for at the same time, so a head may be
// of later than the log's word:
//  1. the log names its last record,
//  2. more is stored, and a head with it is saved and loaded,
//  3. the two differ, and the log is read, as it is when the head is behind.
func (r *Reader) begin(ctx context.Context, s chunk.Session) (fold.Snapshot, Revision, replays, error) {
	type answer struct {
		rec chunk.Record
		err error
	}
	asked := make(chan answer, 1)
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		rec, err := r.log.Last(asking, s)
		asked <- answer{rec, err}
	}()
	head, revision, err := r.load(ctx, s)
	if err != nil {
		cancel()
	}
	last := <-asked
	unknown := errors.Is(last.err, chunk.ErrUnknownSession)
	switch {
	case err != nil:
		return head, 0, nil, err
	case last.err != nil && !unknown:
		return head, 0, nil, fmt.Errorf("the last record of %s: %w", s, last.err)
	case last.rec.Position() == head.Position && last.rec.Epoch == head.Epoch:
		// Also where neither knows anything.
		return head, revision, spent{unknown}, nil
	}
	return head, revision, r.log, nil
}

// spent is the log behind its last record, or that of a session that it has none of.
type spent struct{ unknown bool }

func (l spent) Replay(_ context.Context, s chunk.Session, _ chunk.Position) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		if l.unknown {
			yield(chunk.Record{}, fmt.Errorf("session %s: %w", s, chunk.ErrUnknownSession))
		}
	}
}

func (l spent) ReplayFloor(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return l.Replay(ctx, s, after)
}

// tail folds the rest of the log on top of a head. Of a session that was deleted,
// and has not begun anew, there is nothing to tell.
func tail(ctx context.Context, log replays, head fold.Snapshot) (fold.Snapshot, error) {
	f := folder{log: log}
	snap, err := f.catchUp(ctx, head)
	if err == nil && snap.Deleted() {
		return snap, fmt.Errorf("session %s, deleted: %w", head.Session, chunk.ErrUnknownSession)
	}
	return snap, err
}

// complete is tail with the messages that were finished before the head.
func (r *Reader) complete(ctx context.Context, log replays, head fold.Snapshot) (fold.Snapshot, error) {
	snap, err := tail(ctx, log, head)
	if err != nil || snap.Complete() {
		return snap, err
	}
	missing, err := r.store.Messages(ctx, snap)
	if err != nil {
		return snap, err
	}
	return snap.Hold(missing)
}

// unusable reports whether there is no head to go on from: the session is folded
// from the start of the log.
func unusable(err error) bool {
	return errors.Is(err, ErrNoSnapshot) || errors.Is(err, fold.ErrVersion) || errors.Is(err, ErrDamaged)
}

// replaceable reports whether a head may be put in the place of what could not be
// loaded. That of a newer build may not, while two builds run side by side:
//  1. the new one saves a head that it alone can read,
//  2. the old one gets a record of the session, and folds the log from its start,
//  3. the log has expired in part: what only the head still held is gone.
//
// The old one waits; the record comes to the new one when that has the partition.
func replaceable(err error) bool { return unusable(err) && !errors.Is(err, fold.ErrNewer) }

// pause waits before try n; not before the first.
func pause(ctx context.Context, n int) error {
	if n == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(firstPause << (n - 1))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
