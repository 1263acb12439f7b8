package producers

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/headindex"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// storedPositions reads positions from the heads of snapshots, which are kept for longer than the log. It asks the leader of the bucket: a replica that lags
// may have an earlier head, and the writer would use ordinals again that the current one contains.
type storedPositions struct {
	client  *jsclient.Client
	layout  subjects.Layout
	timeout time.Duration // of one request
}

// StoredPosition implements PositionStore. A session has no position if no projector has saved it, or if there is no bucket of snapshots.
func (p storedPositions) StoredPosition(ctx context.Context, s chunk.Session) (chunk.Position, chunk.Epoch, error) {
	key, err := subjects.SnapshotHeadKey(s)
	if err != nil {
		return chunk.Position{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	bucket := p.layout.SnapshotsOf(p.layout.Partition(s))
	m, err := p.client.Last(ctx, "KV_"+bucket, "$KV."+bucket+"."+key)
	if errors.Is(err, jsclient.ErrNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return chunk.Position{}, 0, nil
	}
	if err != nil {
		return chunk.Position{}, 0, err
	}
	index, ok := headindex.Decode(m.Header.Get(headindex.Header))
	if !ok {
		return chunk.Position{}, 0, nil // the key was deleted by hand
	}
	return chunk.Position{Seq: index.Seq, Ordinal: index.Ordinal}, index.Epoch, nil
}
