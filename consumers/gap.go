package consumers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/wait"
)

// chainOf returns the ordinal checker of the session that a message belongs to, created at its first record. errSkip: the message is malformed.
func (rd *readState) chainOf(ctx context.Context, e *jsreader.Entry) (*ordinalChecker, error) {
	if c := rd.chains[e.Subject]; c != nil {
		return c, nil
	}
	s, err := rd.cfg.Layout.Parse(e.Subject)
	if err != nil {
		return nil, rd.countMalformed(e, err)
	}
	c := &ordinalChecker{session: s}
	rec, err := decode(e.Message, s)
	if err != nil {
		return nil, rd.countMalformed(e, err)
	}
	if err := rd.findPredecessor(ctx, c, e.Subject, rec); err != nil {
		return nil, err
	}
	rd.chains[e.Subject] = c
	return c, nil
}

// findPredecessor initializes the ordinal checker of a session whose first record in this read is rec. The client that sent the cursor has the records up
// to the cursor, so the last of them is the predecessor.
func (rd *readState) findPredecessor(ctx context.Context, c *ordinalChecker, subject string, rec chunk.Record) error {
	switch {
	case rd.after.Seq == 0 && rd.fromFirst:
		c.last.Ordinal = rec.Ordinal - 1
		return nil
	case rd.after.Seq == 0:
		return rd.checkRoot(ctx, subject, rec)
	case rec.Ordinal == 1:
		return nil
	}
	before, err := retry(ctx, rd.Reader, 0, func(ctx context.Context) (chunk.Record, error) {
		return rd.recordBefore(ctx, c, subject, rec)
	})
	if errors.Is(err, jsclient.ErrNotFound) {
		// It is unknown which records of this session the client had.
		return rd.truncatedIn(c, chunk.TruncatedExpired, rec.Seq)
	}
	if err != nil {
		return err
	}
	c.last, c.epoch = before.Position(), before.Epoch
	return nil
}

// checkRoot checks the beginning of a tree before any record of it is delivered. Retention removes the oldest messages first, and the oldest of a tree is
// the first of its root. So if the tree begins with a sub-agent, the first record of the root shows whether something was removed.
func (rd *readState) checkRoot(ctx context.Context, subject string, rec chunk.Record) error {
	if len(rd.chains) > 0 || subject == rd.root {
		return nil // not the beginning, or the root itself, whose ordinal shows it
	}
	first, err := rd.firstRecord(ctx, rd.stream, rd.session, 0)
	switch {
	case errors.Is(err, jsclient.ErrNotFound):
		return nil
	case err != nil:
		return err
	case first.Ordinal > 1:
		return rd.truncated(chunk.TruncatedExpired, rec.Seq)
	}
	return nil
}

// recordBefore returns the last record of a session up to the cursor. A replica that lags may answer, with an earlier record; so a record that is not the
// predecessor is requested again.
func (rd *readState) recordBefore(ctx context.Context, c *ordinalChecker, subject string, rec chunk.Record) (chunk.Record, error) {
	tries := 1
	if rd.state.Replicas > 1 {
		tries = 5
	}
	for {
		tries--
		before, err := rd.previousRecord(ctx, c, subject, rec)
		if tries == 0 || err == nil && before.Ordinal+1 == rec.Ordinal || err != nil && !errors.Is(err, jsclient.ErrNotFound) {
			return before, err
		}
		if err := wait.Sleep(ctx, 50*time.Millisecond); err != nil {
			return chunk.Record{}, err
		}
	}
}

// previousRecord skips records of a fenced writer that are between rec and its predecessor: those have a lower epoch than a record before them.
func (rd *readState) previousRecord(ctx context.Context, c *ordinalChecker, subject string, rec chunk.Record) (chunk.Record, error) {
	const maxAttempts = 8
	var best chunk.Record
	upTo := rd.after.Seq
	for range maxAttempts {
		before, err := rd.recordUpTo(ctx, rd.stream, c.session, subject, upTo)
		if errors.Is(err, jsclient.ErrNotFound) && best.Seq > 0 {
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

// recordUpTo returns the last record of s up to a sequence, or jsclient.ErrNotFound, also if a replica that lags has answered.
func (r *Reader) recordUpTo(ctx context.Context, stream string, s chunk.Session, subject string, upTo chunk.Seq) (chunk.Record, error) {
	for {
		m, err := r.client.Before(ctx, stream, subject, uint64(upTo))
		if err != nil {
			return chunk.Record{}, err
		}
		if rec, err := decode(m, s); err == nil {
			return rec, nil
		}
		if upTo = chunk.Seq(m.Seq) - 1; upTo == 0 {
			return chunk.Record{}, jsclient.ErrNotFound
		}
	}
}

// acceptGap returns nil if a cleanup removed the records that are missing before rec: one that is older than this read, unless the range allows others.
func (rd *readState) acceptGap(ctx context.Context, c *ordinalChecker, subject string, rec chunk.Record) error {
	if rd.fromFirst && !c.begun {
		return nil
	}
	if c.last.Ordinal == 0 { // the first record of a session is never cleaned up
		return rd.truncatedIn(c, chunk.TruncatedExpired, rec.Seq)
	}
	h := gap{c.last.Ordinal + 1, rec.Ordinal - 1}
	truncations, err := rd.lookAhead(ctx, subject, rec.Seq)
	if err != nil {
		return err
	}
	switch {
	case covers(removedBy(upTo(truncations, rd.attached)), h), rd.cleanup && covers(removedBy(truncations), h):
		return nil
	case covers(removedBy(truncations), h):
		why := rd.truncatedIn(c, chunk.TruncatedCleanup, 0)
		for _, m := range truncations {
			if m.seq > rd.attached && m.overlaps(h) {
				attributeTo(why, m)
				break
			}
		}
		return why
	}
	return rd.gapReason(ctx, c, rec)
}

// acceptReuse returns nil if the log starts with rec and the read takes what the log still has; errSkip if the writer of rec was fenced.
func (rd *readState) acceptReuse(ctx context.Context, c *ordinalChecker, rec chunk.Record) error {
	err := rd.gapReason(ctx, c, rec)
	truncated, ok := errors.AsType[*chunk.TruncatedError](err)
	starts := ok && truncated.Reason == chunk.TruncatedExpired
	switch {
	case starts && rd.fromFirst && !c.begun:
		c.epoch = 0 // of a record that has expired
		return nil
	case ok && !starts && rec.Epoch < c.epoch:
		return rd.countFenced()
	}
	return err
}

// gapReason distinguishes records that expired at the beginning from records that are missing in the middle.
func (rd *readState) gapReason(ctx context.Context, c *ordinalChecker, rec chunk.Record) error {
	first, err := rd.firstRecord(ctx, rd.stream, c.session, 0)
	switch {
	case errors.Is(err, jsclient.ErrNotFound): // deleted meanwhile
		return rd.truncatedIn(c, chunk.TruncatedExpired, 0)
	case err != nil:
		return err
	case first.Seq >= rec.Seq:
		return rd.truncatedIn(c, chunk.TruncatedExpired, first.Seq)
	}
	return rd.truncatedIn(c, chunk.TruncatedGap, first.Seq)
}
