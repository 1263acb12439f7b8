package logtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// faults are what a test asked to go wrong.
type faults struct {
	generation int                                    // of the stream; rises with Recreate
	cut        int                                    // rises with CutFeeds
	down       error                                  // why nothing can be asked
	held       bool                                   // feeds stand still
	drop       func(chunk.Record) bool                // records the feed leaves out in silence
	during     func(ctx context.Context, what string) // called before every answer
}

// ErrCut is what feeds end with after CutFeeds.
var ErrCut = errors.New("connection cut by the test")

// CutFeeds ends all open feeds with ErrCut, as a lost connection does.
func (l *Log) CutFeeds() { l.fault(func(f *faults) { f.cut++ }) }

// Down makes every question fail with err, and cuts the feeds; nil is up again.
func (l *Log) Down(err error) {
	l.fault(func(f *faults) {
		f.down = err
		f.cut++
	})
}

// Hold makes the feeds stand still, as a slow network does, until Release.
func (l *Log) Hold() { l.fault(func(f *faults) { f.held = true }) }

// Release lets the feeds run again.
func (l *Log) Release() { l.fault(func(f *faults) { f.held = false }) }

// Drop makes the feeds leave out the records that which chooses, in silence. A
// real feed does not do that; a hub must notice all the same.
func (l *Log) Drop(which func(chunk.Record) bool) { l.fault(func(f *faults) { f.drop = which }) }

// During is called before each record that is read ("read") and each question
// that is answered ("verify", "last", "tip"), without any lock held: the moment
// to let something happen in between.
func (l *Log) During(f func(ctx context.Context, what string)) {
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

// Tip is hub.Feed.
func (l *Log) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	if partition != 0 {
		return chunk.Tip{}, fmt.Errorf("partition %d of 1", partition)
	}
	if err := l.step(ctx, "tip"); err != nil {
		return chunk.Tip{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return chunk.Tip{Seq: l.last, Epoch: strconv.Itoa(l.lives)}, nil
}

// Feed is hub.Feed.
func (l *Log) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[hub.Message, error] {
	return func(yield func(hub.Message, error) bool) {
		if partition != 0 {
			yield(nil, fmt.Errorf("partition %d of 1", partition))
			return
		}
		opened := l.opened()
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			m, wait, err := l.nextMessage(after, opened)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case wait != nil:
				select {
				case <-wait:
				case <-ctx.Done():
				}
			default:
				after = m.rec.Seq
				if !yield(&m, nil) {
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

func (l *Log) nextMessage(after chunk.Seq, opened faults) (message, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.faults.generation != opened.generation:
		return message{}, nil, &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: after}
	case l.faults.down != nil:
		return message{}, nil, l.faults.down
	case l.faults.cut != opened.cut:
		return message{}, nil, ErrCut
	case after > l.last:
		return message{}, nil, &chunk.TruncatedError{Reason: chunk.TruncatedFuture, After: after}
	case l.floor() > after+1 && after > 0:
		return message{}, nil, &chunk.TruncatedError{Reason: chunk.TruncatedExpired, After: after, Floor: l.floor()}
	case l.faults.held:
		return message{}, l.changed, nil
	}
	i, _ := slices.BinarySearchFunc(l.stored, after+1, func(m message, seq chunk.Seq) int { return cmp.Compare(m.rec.Seq, seq) })
	for ; i < len(l.stored); i++ {
		if m := l.stored[i]; l.faults.drop == nil || !l.faults.drop(m.rec) {
			return m, nil, nil
		}
	}
	return message{}, l.changed, nil
}

// floor is the first sequence of the stream.
func (l *Log) floor() chunk.Seq {
	if len(l.stored) == 0 {
		return l.last + 1
	}
	return l.stored[0].rec.Seq
}

// Seq is hub.Message.
func (m *message) Seq() chunk.Seq { return m.rec.Seq }

// Session is hub.Message.
func (m *message) Session() chunk.Session { return m.rec.Session }

// Record is hub.Message.
func (m *message) Record() (chunk.Record, error) {
	if m.junk {
		return chunk.Record{}, errors.New("no envelope")
	}
	return m.rec, nil
}
