package consumers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// chainOf is the chain of the session that a message belongs to, made when the
// read meets its first record. errPassOver: it belongs to none.
func (rd *reading) chainOf(ctx context.Context, e *entry) (*chain, error) {
	if c := rd.chains[e.subject]; c != nil {
		return c, nil
	}
	s, err := rd.sessionOf(e.subject)
	if err != nil {
		return nil, rd.noRecord(e, err)
	}
	c := &chain{session: s}
	rec, err := e.record(s)
	if err != nil {
		return nil, rd.noRecord(e, err)
	}
	if err := rd.findPredecessor(ctx, c, e.subject, rec); err != nil {
		return nil, err
	}
	rd.chains[e.subject] = c
	return c, nil
}

// findPredecessor completes the chain of a session that the read meets for the
// first time with record rec. Its records up to the cursor were delivered to
// whoever gave us the cursor, so the last of them is where the chain begins.
func (rd *reading) findPredecessor(ctx context.Context, c *chain, subject string, rec chunk.Record) error {
	switch {
	case rd.after.Seq == 0 && rd.options.fromFloor:
		c.last.Ordinal = rec.Ordinal - 1
		return nil
	case rd.after.Seq == 0:
		return rd.checkRoot(ctx, subject, rec)
	case rec.Ordinal == 1:
		return nil
	}
	var before chunk.Record
	err := rd.api.retry(ctx, 0, func(ctx context.Context) (err error) {
		before, err = rd.recordBefore(ctx, c, subject, rec)
		return err
	})
	if errors.Is(err, errMissing) {
		// Nobody can say what the cursor's owner had of this session.
		return rd.truncatedIn(c, chunk.TruncatedExpired, rec.Seq)
	}
	if err != nil {
		return err
	}
	c.last, c.epoch = before.Position(), before.Epoch
	return nil
}

// checkRoot looks at the beginning of a tree before anything of it is given
// out. Retention takes the oldest messages first, and the oldest of a tree is
// the first of its root. So when the tree begins with a sub-agent, its root
// tells whether something was there before.
func (rd *reading) checkRoot(ctx context.Context, subject string, rec chunk.Record) error {
	if len(rd.chains) > 0 || subject == rd.root {
		return nil // no beginning, or the root itself, whose ordinal tells
	}
	first, err := rd.firstRecord(ctx, rd.root, rd.session)
	switch {
	case errors.Is(err, errMissing):
		return nil
	case err != nil:
		return err
	case first.Ordinal > 1:
		return rd.truncated(chunk.TruncatedExpired, rec.Seq)
	}
	return nil
}

// firstRecord is the first record of a session that is still there.
func (rd *reading) firstRecord(ctx context.Context, subject string, s chunk.Session) (rec chunk.Record, err error) {
	err = rd.api.retry(ctx, 0, func(ctx context.Context) error {
		for from := chunk.Seq(1); ; {
			m, err := rd.api.firstOf(ctx, rd.stream, subject, from)
			if err != nil {
				return err
			}
			if rec, err = m.record(s); err == nil {
				return nil
			}
			from = m.seq + 1
		}
	})
	return rec, err
}

// recordBefore is the last record of a session up to the cursor. The question
// may be answered by a replica that lags, which then knows of fewer records
// than there are; so one that does not fit is asked for again.
func (rd *reading) recordBefore(ctx context.Context, c *chain, subject string, rec chunk.Record) (chunk.Record, error) {
	tries := 1
	if rd.tape.state.replicas > 1 {
		tries = 5
	}
	for {
		tries--
		before, err := rd.predecessor(ctx, c, subject, rec)
		if tries == 0 || err == nil && before.Ordinal+1 == rec.Ordinal || err != nil && !errors.Is(err, errMissing) {
			return before, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return chunk.Record{}, err
		}
	}
}

// predecessor looks past records of an overtaken writer that lie between rec
// and the one before it: those have a lower epoch than something before them.
func (rd *reading) predecessor(ctx context.Context, c *chain, subject string, rec chunk.Record) (chunk.Record, error) {
	const most = 8
	var best chunk.Record
	upTo := rd.after.Seq
	for range most {
		before, err := rd.recordUpTo(ctx, c.session, subject, upTo)
		if errors.Is(err, errMissing) && best.Seq > 0 {
			break
		}
		if err != nil {
			return chunk.Record{}, err
		}
		if best.Seq == 0 || before.Epoch > best.Epoch {
			best = before
		}
		if before.Ordinal+1 == rec.Ordinal || before.Epoch >= rec.Epoch || before.Seq == 1 {
			break
		}
		upTo = before.Seq - 1
	}
	return best, nil
}

func (rd *reading) recordUpTo(ctx context.Context, s chunk.Session, subject string, upTo chunk.Seq) (chunk.Record, error) {
	for {
		m, err := rd.api.before(ctx, rd.stream, subject, upTo)
		if err != nil {
			return chunk.Record{}, err
		}
		if rec, err := m.record(s); err == nil {
			return rec, nil
		}
		if upTo = m.seq - 1; upTo == 0 {
			return chunk.Record{}, errMissing
		}
	}
}

// acceptHole decides about the records that are missing before rec: nil when a
// clean-up that is older than this read took them.
func (rd *reading) acceptHole(ctx context.Context, c *chain, subject string, rec chunk.Record) error {
	if rd.options.fromFloor && !c.begun {
		return nil
	}
	if c.last.Ordinal == 0 { // the first record of a session is never cleaned up
		return rd.truncatedIn(c, chunk.TruncatedExpired, rec.Seq)
	}
	h := hole{c.last.Ordinal + 1, rec.Ordinal - 1}
	if sh := rd.shelfOf(subject); sh != nil && sh.explains(ctx, h, rec.Seq) {
		return nil
	}
	markers, err := rd.lookAhead(ctx, subject, rec.Seq)
	if err != nil {
		return err
	}
	switch {
	case explains(upTo(markers, rd.attached), h):
		return nil
	case explains(markers, h):
		why := rd.truncatedIn(c, chunk.TruncatedCleanup, 0)
		for _, m := range markers {
			if m.seq > rd.attached && m.overlaps(h) {
				blame(why, m)
				break
			}
		}
		return why
	}
	return rd.whyHole(ctx, c, subject, rec)
}

// whyHole tells what was cut off at the beginning from what was taken out of
// the middle.
func (rd *reading) whyHole(ctx context.Context, c *chain, subject string, rec chunk.Record) error {
	first, err := rd.firstRecord(ctx, subject, c.session)
	switch {
	case errors.Is(err, errMissing): // gone as well by now
		return rd.truncatedIn(c, chunk.TruncatedExpired, 0)
	case err != nil:
		return err
	case first.Seq >= rec.Seq:
		return rd.truncatedIn(c, chunk.TruncatedExpired, first.Seq)
	}
	return rd.truncatedIn(c, chunk.TruncatedGap, first.Seq)
}
