package jssnapshots

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/projector"
)

// Log is a projector.Log over a consumers.Reader.
type Log struct{ Reader *consumers.Reader }

var _ projector.Log = Log{}

// Replay implements projector.Log.
func (l Log) Replay(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return l.Reader.Replay(ctx, chunk.Range{Session: s, After: after})
}

// Last implements projector.Log.
func (l Log) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	return l.Reader.Last(ctx, s)
}

// ReplayAvailable implements projector.Log.
func (l Log) ReplayAvailable(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	return l.Reader.Replay(ctx, chunk.Range{Session: s, After: after, FromOldest: true})
}
