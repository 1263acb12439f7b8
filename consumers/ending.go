package consumers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// ending remembers how the session whose terminal record counts stands. The
// zero ending knows nothing of it yet.
type ending struct {
	known    bool
	terminal bool
	seq      chunk.Seq
	failed   error // *chunk.StreamFailedError after stream_failed
}

// see takes the next record of a read, if it is of the root.
func (e *ending) see(ofRoot bool, rec chunk.Record) {
	if !ofRoot {
		return
	}
	*e = ending{known: true, terminal: rec.Type.Terminal(), seq: rec.Seq}
	if rec.Type == chunk.TypeStreamFailed {
		e.failed = failure(rec)
	}
}

// failure is the error that a stream_failed record stands for.
func failure(rec chunk.Record) error {
	failed := &chunk.StreamFailedError{Session: rec.Session}
	if c, err := rec.Decode(); err == nil {
		if body, ok := c.Body.(chunk.StreamFailed); ok {
			failed.Message = body.Error
		}
	}
	return failed
}

// ended ends the read when the root has ended: with its failure, or with
// errEnd. A tree that was entered in the middle may not have met its root yet.
func (rd *reading) ended(ctx context.Context) error {
	if !rd.rootLast.known {
		rec, err := rd.lastOfRoot(ctx)
		if errors.Is(err, errMissing) {
			return nil
		}
		if err != nil {
			return err
		}
		if rec.Seq > rd.tape.last() {
			return nil // it is on its way to us
		}
		rd.rootLast.see(true, rec)
	}
	switch {
	case !rd.rootLast.terminal:
		return nil
	case rd.rootLast.failed != nil:
		return rd.rootLast.failed
	}
	return errEnd
}

// lastOfRoot asks the leader. The read has begun, so it waits for NATS.
func (rd *reading) lastOfRoot(ctx context.Context) (rec chunk.Record, err error) {
	err = rd.api.retry(ctx, 0, func(ctx context.Context) (err error) {
		rec, err = rd.lastRecord(ctx, rd.stream, rd.root, rd.session)
		return err
	})
	return rec, err
}

// watchForTheEnd asks the tape to tell of silence as long as the root may have
// ended. Then the end is looked for once more: the number of messages that
// follow a terminal record is wrong for ever when they are deleted, or are no
// records.
func (rd *reading) watchForTheEnd() {
	rd.tape.watchSilence = rd.live && rd.strands == nil && !rd.options.keepOpen && (rd.rootLast.terminal || !rd.rootLast.known)
}

// atTheEnd is asked when nothing lies after the position: is there such a
// session, is the position its end, and has it ended?
func (rd *reading) atTheEnd(ctx context.Context) error {
	var m message
	err := rd.api.retry(ctx, rd.cfg.Patience, func(ctx context.Context) (err error) {
		m, err = rd.api.lastOf(ctx, rd.stream, rd.filter)
		return err
	})
	switch {
	case errors.Is(err, errMissing):
		return rd.nothingThere()
	case err != nil:
		return err
	case m.seq > rd.after.Seq:
		// The consumer reads a replica that lags behind the leader.
		return nil
	case m.seq < rd.after.Seq:
		// The log was there beyond its present end when somebody took the
		// position, and is not now.
		return rd.truncated(chunk.TruncatedFuture, 0)
	}
	switch {
	case !rd.live:
		return errEnd
	case rd.options.keepOpen:
		return nil
	}
	return rd.ended(ctx)
}

// nothingThere: the log has no record of the scope at all.
func (rd *reading) nothingThere() error {
	switch {
	case rd.after.Seq == 0:
		return chunk.ErrUnknownSession
	case rd.live:
		return nil // a position from a snapshot whose log has expired; the next run goes on from it
	}
	return errEnd
}

// checkEnding is asked when a terminal record was not the last by the server's
// count, and then nothing came.
func (rd *reading) checkEnding(ctx context.Context) error {
	if _, err := rd.beyond(ctx, rd.tape); !errors.Is(err, errMissing) {
		return err // nil: it is on its way to us
	}
	return rd.ended(ctx)
}

// beyond is what the leader has next after what the tape gave; errMissing.
func (r *Reader) beyond(ctx context.Context, t *tape) (m message, err error) {
	err = r.api.retry(ctx, 0, func(ctx context.Context) (err error) {
		m, err = r.api.firstOf(ctx, t.stream, t.spec.filter, t.last()+1)
		return err
	})
	return m, err
}

// reallyTheEnd gives errEnd unless the leader has more than the tape gave, up to
// a bound: the tape reads a replica that lags, or its consumer said that there
// was nothing more before it had delivered what it had announced. Mostly that
// was deleted; but the server counts on its own, and a count that is wrong must
// not end a read in silence. nil: go on.
//
// Two things make every read end. The leader is asked for the next message and
// not for the last: the last one of a subject comes from an index, and in that
// one messages may stay that were purged long ago. And the tape is given what
// the leader found, so that a server whose consumers never deliver it does not
// hold the reader for ever in one place.
func (r *Reader) reallyTheEnd(ctx context.Context, t *tape, bound chunk.Seq) error {
	if t.state.replicas <= 1 && !t.denied {
		return errEnd
	}
	m, err := r.beyond(ctx, t)
	switch {
	case errors.Is(err, errMissing):
		return errEnd
	case err != nil:
		return err
	case m.seq > bound:
		return errEnd
	}
	if err := sleep(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	return t.goOnWith(ctx, m)
}
