package consumers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// sequences is what a firehose delivers of one partition.
type sequences struct {
	epoch   string
	after   uint64
	anchor  chunk.Anchor // of the message at after, 0 if unknown
	through uint64
	ends    bool // at through; otherwise the firehose follows the log
}

// bounded reports whether Run ends by itself.
func (c FirehoseConfig) bounded() bool { return c.NoFollow || !c.Until.IsZero() }

func (c FirehoseConfig) validateRange(partitions int) error {
	if len(c.After) == 0 {
		return nil
	}
	if c.Name != "" {
		return fmt.Errorf("Name is %q, want none with After: the server has the position", c.Name)
	}
	if !c.Since.IsZero() {
		return fmt.Errorf("Since is %s, want none with After", c.Since.Format(time.RFC3339))
	}
	named := map[int]bool{}
	for _, at := range c.After {
		if at.Partition >= partitions || named[at.Partition] {
			return fmt.Errorf("After has the position %s, want one for each of the %d partitions", at, partitions)
		}
		named[at.Partition] = true
	}
	if len(named) < partitions {
		return fmt.Errorf("After has positions for %d of %d partitions", len(named), partitions)
	}
	return nil
}

// Positions returns, after Run, the positions up to which an ephemeral firehose has delivered: the After of one that continues. It returns nil if a partition
// was not attached.
func (f *Firehose) Positions() []PartitionPosition {
	for _, p := range f.positions {
		if p.StreamEpoch == "" {
			return nil
		}
	}
	return f.positions
}

// sequences returns the range of the partition, as the leader has the log now.
func (l *partitionLoop) sequences(ctx context.Context) (sequences, error) {
	state, err := l.reader.state(ctx, l.stream)
	if err != nil {
		return sequences{}, err
	}
	s := sequences{epoch: state.Epoch, through: state.Last, ends: l.cfg.bounded()}
	if until := l.cfg.Until; !until.IsZero() {
		if until.After(state.Now) {
			return s, fmt.Errorf("Until is %s, after the present %s of the server", until.Format(time.RFC3339), state.Now.Format(time.RFC3339))
		}
		if s.through, err = l.storedBefore(ctx, state, until); err != nil {
			return s, err
		}
	}
	switch {
	case len(l.cfg.After) > 0:
		for _, at := range l.cfg.After {
			if at.Partition == l.partition {
				err = l.startAfter(ctx, &s, state, at)
			}
		}
	case !l.cfg.Since.IsZero():
		s.after, err = l.storedBefore(ctx, state, l.cfg.Since)
	case l.cfg.FromLatest:
		s.after = state.Last
	}
	return s, err
}

// startAfter begins after a position, if the log still is the one of the position. It reports a Gap if retention has removed the records that follow.
func (l *partitionLoop) startAfter(ctx context.Context, s *sequences, state jsclient.State, at PartitionPosition) error {
	seq := uint64(at.Cursor.Seq)
	recreated := fmt.Errorf("the log is not the one of the position %s: %w", at, &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: at.Cursor.Seq})
	if at.StreamEpoch != "" && at.StreamEpoch != state.Epoch || seq > state.Last {
		return recreated
	}
	if seq > 0 && at.Cursor.Anchor != 0 {
		m, err := l.messageAt(ctx, seq)
		if err == nil && !isAnchor(m, at.Cursor.Anchor) {
			m, err = l.reader.leaderAt(ctx, l.stream, at.Cursor.Seq)
		}
		switch {
		case errors.Is(err, jsclient.ErrNotFound): // removed since
		case err != nil:
			return err
		case !isAnchor(m, at.Cursor.Anchor):
			return recreated
		}
	}
	s.after, s.anchor = seq, at.Cursor.Anchor
	if state.First <= seq+1 {
		return nil
	}
	s.after, s.anchor = state.First-1, 0
	return l.reportGap(ctx, Gap{From: at.Cursor.Seq + 1, To: chunk.Seq(state.First - 1), Reason: chunk.TruncatedExpired})
}

func (l *partitionLoop) messageAt(ctx context.Context, seq uint64) (jsclient.Message, error) {
	return retry(ctx, l.reader, l.reader.cfg.OpenTimeout, func(ctx context.Context) (jsclient.Message, error) {
		return l.reader.client.At(ctx, l.stream, seq)
	})
}

// storedBefore returns the last sequence before the first message that was stored at t or later. The leader answers about 30 requests: a replica that lags could
// leave out messages.
func (l *partitionLoop) storedBefore(ctx context.Context, state jsclient.State, t time.Time) (uint64, error) {
	first, end := max(state.First, 1), state.Last+1
	for first < end {
		middle := first + (end-first)/2
		m, err := l.reader.client.NextRetry(ctx, l.reader.cfg.OpenTimeout, l.stream, ">", middle)
		switch {
		case err != nil && !errors.Is(err, jsclient.ErrNotFound):
			return 0, err
		case err == nil && m.Stored.Before(t):
			first = m.Seq + 1
		default:
			end = middle
		}
	}
	return first - 1, nil
}

func (l *partitionLoop) runEphemeral(ctx context.Context) error {
	s, err := l.sequences(ctx)
	if err != nil {
		return err
	}
	at := &l.positions[l.partition]
	*at = PartitionPosition{StreamEpoch: s.epoch, Partition: l.partition, Cursor: chunk.Cursor{Seq: chunk.Seq(s.after), Anchor: s.anchor}}
	if s.ends && s.through <= s.after {
		return nil
	}
	o := l.reader.newOrdered(jsreader.OrderedConfig{
		Stream: l.stream, Filter: l.filter, After: s.after, Epoch: s.epoch, Live: !s.ends, Strict: true, OpenTimeout: l.reader.cfg.OpenTimeout,
	})
	defer o.Close()
	for err = o.Open(ctx); err == nil; {
		var e jsreader.Entry
		if e, err = l.next(ctx, o, s); err != nil {
			break
		}
		if err = l.deliver(ctx, &e); err == nil {
			at.Cursor = cursorOf(&e)
		}
	}
	if errors.Is(err, jsreader.ErrEnd) {
		return l.endAt(ctx, at, s.through)
	}
	return truncation(err, o, chunk.Session{}, chunk.Seq(o.Last()))
}

// next returns the next message of the range, or jsreader.ErrEnd.
func (l *partitionLoop) next(ctx context.Context, o *jsreader.Ordered, s sequences) (jsreader.Entry, error) {
	if !s.ends {
		return o.Next(ctx)
	}
	e, err := o.NextThrough(ctx, s.through)
	if err == nil && e.Seq > s.through {
		err = jsreader.ErrEnd
	}
	return e, err
}

// endAt moves the position to the end of the range, which may be a record that the filter does not select. If the record there is gone, the position stays
// at the last one that was delivered, unless there is none.
func (l *partitionLoop) endAt(ctx context.Context, at *PartitionPosition, through uint64) error {
	m, err := l.messageAt(ctx, through)
	switch {
	case err == nil:
		at.Cursor = chunk.Cursor{Seq: chunk.Seq(m.Seq), Anchor: chunk.AnchorAt(m.Stored)}
	case !errors.Is(err, jsclient.ErrNotFound):
		return err
	case at.Cursor.Anchor == 0:
		at.Cursor.Seq = chunk.Seq(through)
	}
	return nil
}

func cursorOf(e *jsreader.Entry) chunk.Cursor {
	return chunk.Cursor{Seq: chunk.Seq(e.Seq), Anchor: chunk.AnchorAt(e.Stored)}
}
