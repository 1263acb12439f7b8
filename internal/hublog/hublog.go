// Package hublog adapts a consumers.Reader to the ports Log and Feed of a hub, which are in a layer that does not import consumers.
package hublog

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/hub"
)

// Log implements hub.Log.
type Log struct{ *consumers.Reader }

var _ hub.Log = Log{}

// Replay implements hub.Log.
func (l Log) Replay(ctx context.Context, s chunk.Session, after chunk.Position, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	return l.Reader.Replay(ctx, chunk.Range{Session: s, After: after, Through: through})
}

// ReplayTree implements hub.Log.
func (l Log) ReplayTree(ctx context.Context, root chunk.Session, after, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	return l.Reader.Replay(ctx, chunk.Range{Session: root, Tree: true, After: chunk.Position{Seq: after}, Through: through})
}

// Feed implements hub.Feed.
type Feed struct{ Reader *consumers.Reader }

var _ hub.Feed = Feed{}

// Tip implements hub.Feed.
func (f Feed) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	return f.Reader.Tip(ctx, partition)
}

// Feed yields the same message object each time: the hub reads a message before it takes the next one, and drops most of them.
func (f Feed) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[hub.FeedMessage, error] {
	return func(yield func(hub.FeedMessage, error) bool) {
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

// message is a consumers.LogMessage whose subject is parsed once.
type message struct {
	msg     consumers.LogMessage
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
