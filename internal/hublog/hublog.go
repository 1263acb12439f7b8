// Package hublog fits a consumers.Reader to what a hub asks of a log and of a
// feed: the two live on floors that do not know each other.
package hublog

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// Log is a hub.Log.
type Log struct{ *consumers.Reader }

var _ hub.Log = Log{}

// Replay is hub.Log's.
func (l Log) Replay(ctx context.Context, s chunk.Session, after chunk.Position, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	return l.Reader.Replay(ctx, s, after, consumers.Through(through))
}

// ReplayTree is hub.Log's.
func (l Log) ReplayTree(ctx context.Context, root chunk.Session, after, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	return l.Reader.ReplayTree(ctx, root, after, consumers.Through(through))
}

// Feed is a hub.Feed.
type Feed struct{ Reader *consumers.Reader }

var _ hub.Feed = Feed{}

// Tip is hub.Feed's.
func (f Feed) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	return f.Reader.Tip(ctx, partition)
}

// Feed hands out one message object again and again: the hub looks at a message
// before it takes the next one, and most are nobody's.
func (f Feed) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[hub.Message, error] {
	return func(yield func(hub.Message, error) bool) {
		var m message
		for msg, err := range f.Reader.Feed(ctx, partition, after) {
			if err != nil {
				yield(nil, err)
				return
			}
			m = message{msg: msg}
			m.session, m.err = msg.Session()
			if !yield(&m, nil) {
				return
			}
		}
	}
}

// message is a consumers.Message whose subject is parsed once.
type message struct {
	msg     consumers.Message
	session chunk.Session
	err     error
}

func (m *message) Seq() chunk.Seq         { return m.msg.Seq }
func (m *message) Session() chunk.Session { return m.session }

func (m *message) Record() (chunk.Record, error) {
	if m.err != nil {
		return chunk.Record{}, m.err
	}
	return m.msg.RecordOf(m.session)
}
