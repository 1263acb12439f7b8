package jssnapshots

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// Positions implements producers.PositionStore with the headers of stored heads, which are kept for longer than the log. It asks the leader of the bucket: a replica
// that lags may have an earlier head, and the writer would use ordinals again that the current one contains.
type Positions struct {
	client *jsclient.Client
	layout subjects.Layout
}

// NewPositions returns Positions over js. It does not call the server.
func NewPositions(js jetstream.JetStream, layout subjects.Layout) *Positions {
	return &Positions{client: jsclient.New(js), layout: layout}
}

// StoredPosition implements producers.PositionStore. A session has no position if no projector has saved it, or if there is no bucket of snapshots.
func (p *Positions) StoredPosition(ctx context.Context, s chunk.Session) (at chunk.Position, epoch chunk.Epoch, sessionBytes int64, err error) {
	key, err := names.SnapshotHeadKey(s)
	if err != nil {
		return chunk.Position{}, 0, 0, err
	}
	bucket := names.Layout(p.layout).SnapshotsOf(p.layout.Partition(s))
	m, err := p.client.Last(ctx, "KV_"+bucket, "$KV."+bucket+"."+key)
	if errors.Is(err, jsclient.ErrNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return chunk.Position{}, 0, 0, nil
	}
	if err != nil {
		return chunk.Position{}, 0, 0, err
	}
	i, ok := ReadIndex(m.Header)
	if !ok {
		return chunk.Position{}, 0, 0, nil // the key was deleted by hand
	}
	return chunk.Position{Seq: i.Seq, Ordinal: i.Ordinal}, i.Epoch, i.Bytes, nil
}
