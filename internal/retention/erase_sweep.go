package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

const (
	// sweepBatch is the number of old heads that are listed at a time.
	sweepBatch = 500

	// sweepAge is the age of a tombstone after which Sweep completes its deletion.
	sweepAge = 2 * time.Minute

	// stallTimeout is how long a process may be stalled and then write what it has read before the deletion. So long each sweep completes it again.
	stallTimeout = time.Hour

	// restartAge is how long after a deletion Sweep looks for what a stalled process has written for a session that has started again.
	restartAge = 72 * time.Hour
)

// Sweep completes deletions that were interrupted, and removes the snapshots of sessions that have not been written to for SnapshotStore.MaxAge
// and have no record in the log. It returns the number of sessions that it removed. It reads the headers of all heads. Ages are by the time of the server;
// the error is jsclient.ErrClock, and nothing is removed, if that of this host differs by more than a minute. A session that fails is logged and does not
// stop the sweep, which returns an error at its end.
func (e *Eraser) Sweep(ctx context.Context) (removed int, err error) {
	now, err := e.client.SweepTime(ctx, "KV_"+names.Layout(e.cfg.Layout).Snapshots(), e.host)
	if err != nil {
		return 0, err
	}
	return e.SweepAt(ctx, now)
}

// SweepAt is Sweep at a time of the server.
func (e *Eraser) SweepAt(ctx context.Context, now time.Time) (removed int, err error) {
	maxAge, err := e.store.MaxAge(ctx)
	if err != nil {
		return 0, err
	}
	failed := 0
	for position := uint64(0); ; {
		heads, next, err := e.store.HeadsSavedBefore(ctx, now.Add(-sweepAge), sweepBatch, position)
		if err != nil {
			return removed, err
		}
		for _, head := range heads {
			switch done, err := e.sweepSession(ctx, head, now, maxAge); {
			case ctx.Err() != nil:
				return removed, ctx.Err()
			case err != nil:
				failed++
				e.log.WarnContext(ctx, "session not removed", slog.String("session", head.Session.String()), slog.Any("error", err))
			case done:
				removed++
			}
		}
		if position = next; position == 0 {
			break
		}
	}
	if failed > 0 {
		err = fmt.Errorf("%d sessions failed", failed)
	}
	return removed, errors.Join(err, e.values.SweepUploads(ctx, now.Add(-stallTimeout), e.awaitedRuns))
}

// awaitedRuns returns the runs of the commands of a session, and of its messages that wait: no run has written their input yet.
func (e *Eraser) awaitedRuns(ctx context.Context, s chunk.Session) (runs []string, err error) {
	// The messages first: one gets its command before it does not wait any more.
	waiting, err := e.inbox.Queued(ctx, s)
	for _, q := range waiting {
		if q.Open() {
			runs = append(runs, q.Command.RunID)
		}
	}
	if err != nil {
		return nil, err
	}
	queued, err := e.queue.SessionCommands(ctx, s)
	for _, c := range queued {
		runs = append(runs, c.RunID)
	}
	return runs, err
}

// runsOf returns the runs of a session that its snapshot has.
func runsOf(snap fold.Snapshot) []string {
	runs := []string{snap.Run.ID}
	for _, past := range snap.PastRuns {
		runs = append(runs, past.ID)
	}
	return runs
}

func (e *Eraser) sweepSession(ctx context.Context, head projector.ExpiredHead, now time.Time, maxAge time.Duration) (removed bool, err error) {
	expired := maxAge > 0 && head.SavedAt.Before(now.Add(-maxAge))
	switch {
	case head.Deleted || expired:
		return e.expire(ctx, head, now, expired)
	case head.Status == fold.Seeding && head.SavedAt.Before(now.Add(-stallTimeout)):
		// The process that forked has crashed, and no client has repeated the request.
		if _, err := e.reader.Head(ctx, head.Session); !errors.Is(err, chunk.ErrUnknownSession) {
			return false, err
		}
		return true, e.Delete(ctx, head.Session)
	case head.RestartedAt.After(now.Add(-restartAge)):
		return false, e.removeEarlier(ctx, head.Session, now)
	}
	return false, nil
}

// removeEarlier removes what stalled processes have written for a session after its deletion and after it has started again: packs and objects, dead letters of
// records before its first one, and values of the inbox for runs that it does not have. A run that it does not have may be about to start, but not for longer
// than stallTimeout without a command that starts it. A command that resumes another run does not keep the answers to that one.
func (e *Eraser) removeEarlier(ctx context.Context, s chunk.Session, now time.Time) error {
	snap, err := e.reader.Head(ctx, s)
	if errors.Is(err, chunk.ErrUnknownSession) {
		return nil // deleted again
	}
	if err != nil {
		return err
	}
	first, err := e.firstEpoch(ctx, s, snap.Created)
	if err != nil {
		return err
	}
	if err := e.store.DeleteEarlier(ctx, s, snap.Created, first, now.Add(-stallTimeout)); err != nil {
		return err
	}
	if err := e.deadLettersBefore(ctx, s, snap.Created); err != nil {
		return err
	}
	queued, err := e.queue.SessionCommands(ctx, s)
	if err != nil {
		return err
	}
	return e.inbox.DeleteOtherRuns(ctx, s, now.Add(-stallTimeout), func(run string) bool {
		return run == snap.Run.ID || slices.ContainsFunc(snap.PastRuns, func(past fold.Run) bool { return past.ID == run }) ||
			slices.ContainsFunc(queued, func(c control.Command) bool { return c.RunID == run })
	})
}

// firstEpoch returns the epoch of the first record of a session, which was created at a time in milliseconds: each run before has a lower one, and so has a file that
// was stored for a run that did not begin before a deletion. If the log has the record of that deletion first, it is the next one. It is 0 if the log no longer has the
// first record, because later runs have higher ones.
func (e *Eraser) firstEpoch(ctx context.Context, s chunk.Session, created int64) (chunk.Epoch, error) {
	subject, err := e.cfg.Layout.Subject(s)
	if err != nil {
		return 0, err
	}
	m, err := e.client.NextRetry(ctx, retryTimeout, e.stream(s), subject, 1)
	if errors.Is(err, jsclient.ErrNotFound) || err == nil && m.Stored.UnixMilli() > created {
		return 0, nil
	}
	epoch, _, _ := chunk.ParseEventID(m.Header.Get("ce-id"))
	if rec, malformed := codec.Decode(codec.Stored{Session: s, Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data}); malformed == nil && rec.IsDeletion() {
		epoch++
	}
	return epoch, err
}

// deadLettersBefore removes the dead letters of records that the log stored before a time in milliseconds.
func (e *Eraser) deadLettersBefore(ctx context.Context, s chunk.Session, created int64) error {
	stream := names.Layout(e.cfg.Layout).DeadLetterStream()
	filter, err := names.Layout(e.cfg.Layout).DeadLetters(s)
	if err != nil {
		return err
	}
	for from := uint64(1); ; {
		m, err := e.client.NextRetry(ctx, retryTimeout, stream, filter, from)
		if errors.Is(err, jsclient.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		from = m.Seq + 1
		if at := parseDeadLetter(m, e.cfg.Layout).Origin.Stored; at.IsZero() || at.UnixMilli() >= created {
			continue
		}
		if _, err := e.purge(ctx, "dead letters", stream, m.Subject, from); err != nil {
			return err
		}
	}
}

// expire removes the rest of a deleted session, or an expired snapshot. It appends no deletion record: the log is empty, or ends with one, or belongs to a
// new run.
func (e *Eraser) expire(ctx context.Context, found projector.ExpiredHead, now time.Time, old bool) (bool, error) {
	s := found.Session
	subject, err := e.cfg.Layout.Subject(s)
	if err != nil {
		return false, err
	}
	head, r, err := e.store.Load(ctx, s)
	if err != nil && r == 0 {
		if errors.Is(err, projector.ErrNoSnapshot) {
			err = nil
		}
		return false, err
	}
	readable := err == nil
	// The revision of its bucket is read before the log: a projector that stores data of a new run does so with a higher revision.
	before, err := e.store.NextRevision(ctx, s)
	if err != nil {
		return false, err
	}
	last, err := e.client.Last(ctx, e.stream(s), subject)
	if err != nil && !errors.Is(err, jsclient.ErrNotFound) {
		return false, err
	}
	if !head.Deleted() {
		if !old || last.Seq > 0 {
			return false, nil // written to, and no projector has saved it yet
		}
		tombstone := fold.NewTombstone(s, head.Position, head.Epoch)
		if r, err = e.store.Save(ctx, tombstone, r); err != nil {
			return false, exceptConflict(err) // written to meanwhile
		}
		// A run may have started since the log was read, and continues the session after its position. It gets the session back: all messages are still stored.
		last, err = e.client.Last(ctx, e.stream(s), subject)
		switch {
		case err == nil && readable:
			_, err = e.store.Save(ctx, head, r)
			return false, exceptConflict(err)
		case err != nil && !errors.Is(err, jsclient.ErrNotFound):
			return false, err
		}
		if err := e.forgetFork(ctx, head); err != nil {
			return false, err
		}
		head = tombstone
		if e.cfg.Expired != nil {
			e.cfg.Expired()
		}
	}
	end := uint64(head.Position.Seq)
	if last.Seq > end {
		before = r // there is a new run: only data stored before the tombstone is old
		err = e.removeEarlier(ctx, s, now)
	} else {
		err = e.purgeCopies(ctx, s)
	}
	if err != nil {
		return false, err
	}
	if last.Seq > 0 && end > 0 {
		if _, err := e.purge(ctx, "log", e.stream(s), subject, end); err != nil {
			return false, err
		}
	}
	if _, err = e.store.DeleteData(ctx, head, r, max(before, r), !found.SavedAt.After(now.Add(-stallTimeout))); err != nil {
		return false, err
	}
	return true, nil
}

// exceptConflict returns err, nil for a head that another process has saved.
func exceptConflict(err error) error {
	if errors.Is(err, projector.ErrConflict) {
		return nil
	}
	return err
}
