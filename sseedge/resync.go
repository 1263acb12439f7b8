package sseedge

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
)

// maxResyncs is how often a seat is moved to a snapshot without getting a
// single frame there.
const maxResyncs = 2

// resync moves a seat whose position cannot be served to that of a fresh
// snapshot, and leaves the truncated event that says so in v.pending. First to
// the snapshot that a page loads, which stands before the message in flight, so
// that the page gets that message from the stream. If the log does not hold all
// of that message any more, which may show only when it is read, to the exact
// end, which is always there.
func (v *seat) resync(ctx context.Context, cause *chunk.TruncatedError) error {
	v.detach()
	for v.resyncs < maxResyncs {
		v.resyncs++
		snap, err := v.edge.snapshots.Snapshot(ctx, v.target(), Want{Partial: v.resyncs == maxResyncs, Messages: 1})
		if err != nil {
			return err
		}
		req := v.req
		req.After, req.Epoch = snap.Position, ""
		cur, err := v.edge.hub.Subscribe(ctx, req)
		switch {
		case errors.Is(err, chunk.ErrTruncated):
			continue
		case errors.Is(err, hub.ErrEnded), errors.Is(err, chunk.ErrUnknownSession) && snap.over():
			v.over = true
		case err != nil:
			return err
		}
		v.cur = cur
		v.move(cause, snap.Position.Seq)
		return nil
	}
	return errors.Join(errCut, cause)
}

// attachExpired serves a session of which the log holds nothing. It may still be
// known to the snapshots: then nothing can be streamed, and the client that has
// seen all of it is done, while any other is told where to find it.
func (v *seat) attachExpired(ctx context.Context) error {
	snap, err := v.edge.snapshots.Snapshot(ctx, v.target(), Want{Partial: true, Messages: 1})
	if err != nil {
		return err
	}
	// Or the session began just now, between the two questions: then its first
	// reader would be told that its history is gone.
	cur, err := v.edge.hub.Subscribe(ctx, v.req)
	switch {
	case err == nil:
		v.cur = cur
		return nil
	case !errors.Is(err, chunk.ErrUnknownSession):
		return err
	case v.req.After.Seq == snap.Position.Seq:
		return hub.ErrEnded
	}
	cause := &chunk.TruncatedError{Session: v.target(), Reason: chunk.TruncatedExpired, After: v.req.After.Seq}
	v.move(cause, snap.Position.Seq)
	v.over = snap.over()
	return nil
}

// move has the client told that it goes on behind another place, and why.
func (v *seat) move(cause *chunk.TruncatedError, to chunk.Seq) {
	v.pending = native.Resync(nil, cause, to)
	v.edge.metrics.moved(cause.Reason)
}

// lose has the client told that there is nothing of the session any more, neither
// a log nor a snapshot: it was deleted, or the stream was made again without it.
// The event takes the client's cursor back to the beginning. With its old one it
// would come back, and might find something else in that place:
//  1. the stream is made again, and a client cut without a word,
//  2. the session speaks in the new stream, beyond the old place,
//  3. the client comes back with that place, which is a record of the session.
func (v *seat) lose(cause *chunk.TruncatedError) {
	v.detach()
	v.move(cause, 0)
}

// target is the session whose snapshot belongs to what is streamed.
func (v *seat) target() chunk.Session {
	if v.req.Scope == chunk.ScopeTree {
		return v.req.Session.Tree()
	}
	return v.req.Session
}
