package httpedge

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/projector/fold"
)

// maxResyncs is how often a subscription is moved to a snapshot without getting a single frame there.
const maxResyncs = 2

// resync moves a subscription whose position cannot be served to that of a fresh snapshot, and leaves the truncated event that reports it in v.pending. First to
// the snapshot that a page loads, whose position is before the message in flight, so that the page gets that message from the stream. If the log no longer
// has all of that message, which may be detected only when it is read, the subscription is moved to the exact end, which always exists.
func (v *subscription) resync(ctx context.Context, cause *chunk.TruncatedError) error {
	v.detach()
	for v.resyncs < maxResyncs {
		v.resyncs++
		snap, err := v.edge.readPosition(ctx, v.target(), v.resyncs == maxResyncs)
		if err != nil {
			return err
		}
		req := v.req
		req.After, req.Anchor, req.StreamEpoch = position(snap), 0, ""
		cur, err := v.edge.hub.Subscribe(ctx, req)
		switch {
		case errors.Is(err, chunk.ErrTruncated):
			continue
		case errors.Is(err, chunk.ErrUnknownSession) && !over(snap):
			return v.attachExpired(ctx)
		case errors.Is(err, hub.ErrEnded), errors.Is(err, chunk.ErrUnknownSession):
			return v.end(ctx, cause, snap.StreamSequence)
		case err != nil:
			return err
		}
		v.cur = cur
		v.move(cause, snap.StreamSequence)
		return nil
	}
	return errors.Join(errLogUnavailable, cause)
}

// attachExpired serves a session without records in the log, of which a snapshot is stored. A client that does not have all of it is moved to the snapshot.
// If the session is complete, that is the end; otherwise the client waits for the next record: 204 would stop an EventSource for good.
func (v *subscription) attachExpired(ctx context.Context) error {
	snap, err := v.edge.readPosition(ctx, v.target(), true)
	if err != nil {
		return err
	}
	// The session may have begun between the two reads; without another read its first reader would get a truncated event.
	req := v.req
	if has := req.After.Seq == snap.StreamSequence; !over(snap) {
		req.After, req.StreamEpoch, req.Await = position(snap), "", true
		if v.cur, err = v.edge.hub.Subscribe(ctx, req); err == nil && !has {
			v.move(v.expired(), snap.StreamSequence)
		}
		return err
	}
	cur, err := v.edge.hub.Subscribe(ctx, req)
	switch {
	case err == nil:
		v.cur = cur
		return nil
	case !errors.Is(err, chunk.ErrUnknownSession):
		return err
	case v.req.After.Seq == snap.StreamSequence:
		return hub.ErrEnded
	}
	return v.end(ctx, v.expired(), snap.StreamSequence)
}

// end moves the client to the snapshot of a complete session, which nothing follows.
func (v *subscription) end(ctx context.Context, cause *chunk.TruncatedError, to chunk.Seq) error {
	tip, err := v.edge.hub.Tip(ctx, v.target())
	if err != nil {
		return err
	}
	v.move(cause, to)
	v.complete, v.endEpoch = true, tip.StreamEpoch
	return nil
}

// readPosition returns the state at which a stream continues, without its messages.
func (e *Edge) readPosition(ctx context.Context, s chunk.Session, partial bool) (aisdk.FrontendSnapshot, error) {
	snap, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (aisdk.FrontendSnapshot, error) {
		return e.read(ctx, s, fold.PageQuery{Partial: partial, Limit: 1, Parts: 1})
	})
	defer hold.release()
	snap.Messages = nil
	if errors.Is(err, httpkit.ErrBudget) {
		e.metrics.readRejected()
	}
	return snap, err
}

func (v *subscription) expired() *chunk.TruncatedError {
	return &chunk.TruncatedError{Session: v.target(), Reason: chunk.TruncatedExpired, After: v.req.After.Seq}
}

// move prepares the truncated event that moves the client to another position, with the reason.
func (v *subscription) move(cause *chunk.TruncatedError, to chunk.Seq) {
	v.pending = helix.Resync(nil, cause, chunk.Cursor{Seq: to})
	v.edge.metrics.moved(cause.Reason)
}

// writeDeleted prepares the truncated event for a session without a log and without a snapshot: it was deleted, or the stream was recreated without it.
// The event resets the cursor of the client to the beginning. With its old cursor,
//  1. the stream is recreated, and the client is disconnected without an event,
//  2. the session gets records in the new stream, beyond the old position,
//  3. the client reconnects with that position, which is a record of the new session.
func (v *subscription) writeDeleted(cause *chunk.TruncatedError) {
	v.detach()
	v.move(cause, 0)
}

// target returns the session whose snapshot corresponds to the streamed records.
func (v *subscription) target() chunk.Session {
	if v.req.Scope == chunk.ScopeTree {
		return v.req.Session.Tree()
	}
	return v.req.Session
}
