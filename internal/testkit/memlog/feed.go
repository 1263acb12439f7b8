package memlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/hub"
)

// faults are the faults that a test has requested.
type faults struct {
	generation int                                    // of the stream; rises with Recreate
	cut        int                                    // rises with CloseFeeds
	down       error                                  // of every request
	held       bool                                   // feeds are paused
	drop       func(chunk.Record) bool                // records that the feed leaves out silently
	during     func(ctx context.Context, what string) // called before every response
}

// ErrFeedClosed is the error of feeds after CloseFeeds.
var ErrFeedClosed = errors.New("connection cut by the test")

// CloseFeeds ends all open feeds with ErrFeedClosed, as a lost connection does.
func (l *Log) CloseFeeds() { l.fault(func(f *faults) { f.cut++ }) }

// FailWith makes every request fail with err and closes the feeds; nil ends the fault.
func (l *Log) FailWith(err error) {
	l.fault(func(f *faults) {
		f.down = err
		f.cut++
	})
}

// PauseFeeds pauses the feeds, as a slow network does, until Release.
func (l *Log) PauseFeeds() { l.fault(func(f *faults) { f.held = true }) }

// Release resumes the feeds.
func (l *Log) Release() { l.fault(func(f *faults) { f.held = false }) }

// DropFromFeed makes the feeds drop the records that which selects. A server does not do that without a gap in its consumer sequences; a hub must detect it
// nevertheless.
func (l *Log) DropFromFeed(which func(chunk.Record) bool) {
	l.fault(func(f *faults) { f.drop = which })
}

// OnRead sets a function that is called before each record that is read ("read") and each response ("verify", "last", "tip"), without any lock held.
func (l *Log) OnRead(f func(ctx context.Context, what string)) {
	l.fault(func(fs *faults) { fs.during = f })
}

func (l *Log) fault(set func(*faults)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(&l.faults)
	l.wake()
}

func (l *Log) step(ctx context.Context, what string) error {
	l.mu.Lock()
	during := l.faults.during
	l.mu.Unlock()
	if during != nil {
		during(ctx, what)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults.down != nil {
		return l.faults.down
	}
	return ctx.Err()
}

// Tip implements hub.Log.
func (l *Log) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	if partition != 0 {
		return chunk.Tip{}, fmt.Errorf("partition %d of 1", partition)
	}
	if err := l.step(ctx, "tip"); err != nil {
		return chunk.Tip{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return chunk.Tip{Seq: l.last, StreamEpoch: fmt.Sprintf("memlogepoch%d", l.lives)}, nil
}

// Feed implements hub.PartitionLog.
func (l *Log) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		if partition != 0 {
			yield(codec.Stored{}, fmt.Errorf("partition %d of 1", partition))
			return
		}
		l.follow(ctx, after, func(chunk.Session) bool { return true })(yield)
	}
}

// Scope implements hub.Feed: a scope is a tree.
func (*Log) Scope(s chunk.Session) hub.Scope { return hub.Scope{Root: s.Tree()} }

// AtStart implements hub.Feed.
func (*Log) AtStart() []hub.Scope { return nil }

// Open implements hub.Feed.
func (l *Log) Open(ctx context.Context, of hub.Scope, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return l.follow(ctx, after, func(s chunk.Session) bool { return s.Tree() == of.Root })
}

// follow returns a feed of the sessions that in reports.
func (l *Log) follow(ctx context.Context, after chunk.Seq, in func(chunk.Session) bool) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		opened := l.opened()
		for {
			if err := ctx.Err(); err != nil {
				yield(codec.Stored{}, err)
				return
			}
			m, wait, err := l.nextMessage(after, opened, in)
			switch {
			case err != nil:
				yield(codec.Stored{}, err)
				return
			case wait != nil:
				select {
				case <-wait:
				case <-ctx.Done():
				}
			default:
				after = m.rec.Seq
				if !yield(m.asStored(), nil) {
					return
				}
			}
		}
	}
}

func (l *Log) opened() faults {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults
}

func (l *Log) nextMessage(after chunk.Seq, opened faults, in func(chunk.Session) bool) (message, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.faults.generation != opened.generation:
		return message{}, nil, &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: after}
	case l.faults.down != nil:
		return message{}, nil, l.faults.down
	case l.faults.cut != opened.cut:
		return message{}, nil, ErrFeedClosed
	case after > l.last:
		return message{}, nil, &chunk.TruncatedError{Reason: chunk.TruncatedFuture, After: after}
	case l.firstSeq() > after+1 && after > 0:
		return message{}, nil, &chunk.TruncatedError{Reason: chunk.TruncatedExpired, After: after, FirstSeq: l.firstSeq()}
	case l.faults.held:
		return message{}, l.changed, nil
	}
	i, _ := slices.BinarySearchFunc(l.stored, after+1, func(m message, seq chunk.Seq) int { return cmp.Compare(m.rec.Seq, seq) })
	for ; i < len(l.stored); i++ {
		if m := l.stored[i]; in(m.rec.Session) && (l.faults.drop == nil || !l.faults.drop(m.rec)) {
			return m, nil, nil
		}
	}
	return message{}, l.changed, nil
}

// firstSeq returns the first sequence of the stream.
func (l *Log) firstSeq() chunk.Seq {
	if len(l.stored) == 0 {
		return l.last + 1
	}
	return l.stored[0].rec.Seq
}

// asStored returns the message as a log has it.
func (m message) asStored() codec.Stored {
	out := codec.Stored{Session: m.rec.Session, Seq: m.rec.Seq, At: m.rec.StoredAt}
	if !m.malformed {
		e := codec.EncodeJSON(codec.Envelope{Session: m.rec.Session, Epoch: m.rec.Epoch, Ordinal: m.rec.Ordinal},
			codec.Header{Type: m.rec.Type, Timestamp: bodyTime}, m.rec.Data)
		out.Header, out.Data = e.Header, e.Data
	}
	return out
}
