package sseedge

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// subscription is the position of a connection in one session.
type subscription struct {
	edge    *Edge
	req     hub.Request
	cur     *hub.Cursor // nil when the session is complete and there is nothing to follow
	at      string      // the position as a cursor, for a connection with several sessions
	pending []byte      // is sent first: a truncated event, or the beginning of a turn

	view   string // the name of the view
	inline int    // see query.readInline

	translation *translation // nil for the native dialect

	resyncs int // since the last frame

	multiplexed bool   // the connection has other sessions
	name        string // the id in the request, if multiplexed
	complete    bool   // without a cursor: the session is complete
	endEpoch    string // of the stream, if complete
	done        bool   // the session is complete and was delivered
}

// subscribe returns the subscription of a request, in the dialect that its client reads.
func (e *Edge) subscribe(r *http.Request, req hub.Request) (*subscription, *httpkit.Problem) {
	q, p := readQuery(r.URL)
	if p != nil {
		return nil, p
	}
	inline, p := q.readInline()
	if p != nil {
		return nil, p
	}
	name := req.Encoding
	t, p := e.newTranslation(r, &req)
	if p != nil {
		return nil, p
	}
	v := newSubscription(e, req)
	v.view, v.inline = name, inline
	if t != nil {
		t.session = v.target()
		v.translation = t
	}
	return v, nil
}

func newSubscription(e *Edge, req hub.Request) *subscription {
	return &subscription{edge: e, req: req, at: chunk.Cursor{Seq: req.After.Seq, Anchor: req.Anchor}.String()}
}

// attach opens the cursor at the requested position. A position that cannot be served results in a truncated event, not in an error.
func (v *subscription) attach(ctx context.Context) error {
	if v.translation != nil {
		return v.translation.attach(ctx, v)
	}
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

func (v *subscription) detach() {
	if v.translation != nil {
		v.translation.detach()
	}
	if v.cur != nil {
		v.cur.Close()
		v.cur = nil
	}
}

// poll returns the next batch, or the channel to wait for. io.EOF: the session is complete and was delivered. After an empty batch it must be called again.
func (v *subscription) poll(ctx context.Context) (hub.Batch, <-chan struct{}, error) {
	if v.pending != nil {
		batch := hub.Batch{Frames: v.pending, Records: 1}
		v.pending = nil
		return batch, nil, nil
	}
	if v.cur == nil {
		return hub.Batch{}, nil, v.finalEvents()
	}
	if v.translation != nil {
		return v.translation.poll(ctx, v.cur)
	}
	batch, wait, err := v.cur.Poll(ctx)
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok {
		return hub.Batch{}, nil, v.resyncLive(ctx, truncated)
	}
	if err == nil && wait == nil {
		v.resyncs = 0
	}
	return batch, wait, err
}

// flushHidden returns the position of records without frames that is not sent yet, or the zero Batch.
func (v *subscription) flushHidden() hub.Batch {
	if v.translation != nil {
		return v.translation.skipped()
	}
	return v.cur.FlushHidden()
}

// resyncLive is resync within a stream, with its own bound for the log and the snapshots.
func (v *subscription) resyncLive(ctx context.Context, cause *chunk.TruncatedError) error {
	ctx, cancel := context.WithTimeout(ctx, v.edge.cfg.AttachTimeout)
	defer cancel()
	err := v.resync(ctx, cause)
	if errors.Is(err, chunk.ErrUnknownSession) {
		v.writeDeleted(cause)
		return nil
	}
	return err
}

// finalEvents ends a session that has no cursor: cleanly if it is complete, or if others on the connection continue.
func (v *subscription) finalEvents() error {
	if v.complete || v.multiplexed {
		return io.EOF
	}
	return errLogUnavailable
}

// epoch returns the epoch of the stream that the positions of the response belong to, empty if it has none.
func (v *subscription) epoch() string {
	if v.cur == nil {
		return v.endEpoch
	}
	return v.cur.StreamEpoch()
}
