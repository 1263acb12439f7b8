package httpedge

import (
	"context"
	"errors"
	"io"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
)

// source is where the events of a subscription come from: the records of its session, or a turn in a dialect.
type source interface {
	// attach opens the requested position. hub.ErrEnded: the session is complete and delivered. chunk.ErrUnknownSession: it does not exist.
	attach(ctx context.Context) error

	// begin sends what is written before the first poll, when the headers are sent.
	begin(ctx context.Context, send func(frames []byte) error) error

	// poll returns the next batch, see subscription.poll.
	poll(ctx context.Context) (hub.Batch, <-chan struct{}, error)

	// skipped returns the position of records without frames that the client does not have yet, or the zero Batch.
	skipped() hub.Batch

	// unknown follows attach of a session that does not exist, on a connection with others.
	unknown()

	detach()
	form() string // the dialect of the frames, "" for the native one
}

// records is the source in the native dialect: the clients of a session share the frames. It is a pointer, so that an idle client needs no memory for it.
type records struct{ *subscription }

// attach opens the cursor at the requested position. A position that cannot be served results in a truncated event, not in an error.
func (v records) attach(ctx context.Context) error {
	cur, err := v.edge.hub.Subscribe(ctx, v.req)
	truncated, isTruncated := errors.AsType[*chunk.TruncatedError](err)
	switch {
	case isTruncated:
		return v.resync(ctx, truncated)
	case errors.Is(err, chunk.ErrUnknownSession):
		return v.attachExpired(ctx)
	}
	v.cur = cur
	return err
}

func (v records) poll(ctx context.Context) (hub.Batch, <-chan struct{}, error) {
	if v.cur == nil {
		return hub.Batch{}, nil, v.finalEvents()
	}
	batch, wait, err := v.cur.Poll(ctx)
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok {
		return hub.Batch{}, nil, incomplete(v.resyncLive(ctx, truncated))
	}
	if err == nil && wait == nil {
		v.resyncs = 0
	}
	return batch, wait, err
}

// finalEvents ends a session that has no cursor: cleanly if it is complete, or if others on the connection continue.
func (v records) finalEvents() error {
	if v.complete || v.multiplexed {
		return io.EOF
	}
	return errLogUnavailable
}

// resyncLive is resync within a stream, with its own bound for the log and the snapshots.
func (v records) resyncLive(ctx context.Context, cause *chunk.TruncatedError) error {
	ctx, cancel := context.WithTimeout(ctx, v.edge.cfg.AttachTimeout)
	defer cancel()
	err := v.resync(ctx, cause)
	if errors.Is(err, chunk.ErrUnknownSession) {
		v.writeDeleted(cause)
		return nil
	}
	return err
}

func (v records) skipped() hub.Batch {
	if v.cur == nil {
		return hub.Batch{}
	}
	return v.cur.FlushHidden()
}

func (v records) unknown() { v.writeDeleted(v.expired()) }

func (records) begin(context.Context, func([]byte) error) error { return nil }

func (records) detach()      {}
func (records) form() string { return "" }
