package sseedge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/sse"
)

var (
	errDrained = errors.New("the edge is being stopped")
	errCut     = errors.New("the log has nothing to go on with")
)

// viewer is one open stream. It runs on the goroutine of its request.
type viewer struct {
	edge    *Edge
	req     hub.Request
	cur     *hub.Cursor // nil when the session is complete and there is nothing to follow
	out     *sse.Writer
	pending []byte // a truncated event that goes out first
	resyncs int    // since the last frame
	over    bool   // without a cursor: the session is complete
}

// events serves GET /v1/sessions/{id}/events.
func (e *Edge) events(w http.ResponseWriter, r *http.Request, s chunk.Session) {
	req, p := readStream(r, s)
	if p == nil && !sse.Accepts(r.Header) {
		p = newProblem(http.StatusNotAcceptable, codeNotAcceptable, "this is an event stream", "Accept: want text/event-stream")
	}
	if p != nil {
		e.refuse(w, p)
		return
	}
	w.Header().Set("X-Session-Id", s.ID)
	if r.Method == http.MethodHead {
		e.head(w)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	v := &viewer{edge: e, req: req}
	if !e.enter(v, cancel) {
		e.refuseStream(w, r, draining)
		return
	}
	defer e.leave(v)
	mine := place{clientAddress(r, e.cfg.TrustedProxies), []chunk.Session{req.Session}}
	if p := e.limits.acquire(mine); p != nil {
		e.refuseStream(w, r, p)
		return
	}
	defer e.limits.release(mine)
	switch err := v.attach(ctx); {
	case errors.Is(err, hub.ErrEnded):
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, chunk.ErrUnknownSession):
		e.refuse(w, noStream)
	case err != nil:
		e.cfg.Log.Warn("stream refused", "session", s.String(), "err", err)
		e.refuseStream(w, r, unavailable)
	default:
		defer v.detach()
		v.stream(ctx, w, r.ProtoMajor)
	}
}

// head answers as GET would, without a stream.
func (e *Edge) head(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
}

// attach puts the viewer's cursor in its place. A cursor that cannot be served
// is an event, not an error.
func (v *viewer) attach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.edge.cfg.Attach)
	defer cancel()
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

// stream writes until the session is complete, and returns; or until anything
// else ends it, and aborts.
func (v *viewer) stream(ctx context.Context, w http.ResponseWriter, protocol int) {
	if protocol == 1 {
		// The write deadline stays on the connection, where it guards the last
		// bytes of this response and would cut the next one.
		w.Header().Set("Connection", "close")
	}
	v.out = sse.NewWriter(w, v.edge.cfg.Patience)
	err := v.out.Open()
	if err == nil {
		err = v.relay(ctx)
	}
	if !errors.Is(err, io.EOF) {
		v.edge.cfg.Log.Debug("stream cut", "session", v.req.Session.String(), "err", err)
		panic(http.ErrAbortHandler)
	}
}

// relay moves batches from the cursor to the client. It returns io.EOF when the
// session is complete.
func (v *viewer) relay(ctx context.Context) error {
	heartbeat := v.edge.cfg.Heartbeat
	tick := time.NewTimer(heartbeat)
	defer tick.Stop()
	for {
		if err := v.sendPending(); err != nil {
			return err
		}
		if v.cur == nil {
			return v.epilogue()
		}
		batch, err := v.cur.Next(ctx, tick.C)
		if truncated, ok := errors.AsType[*chunk.TruncatedError](err); ok {
			err = v.resyncLive(ctx, truncated)
		}
		if err != nil {
			return err
		}
		if len(batch.Frames) > 0 || batch.Mark != 0 {
			v.resyncs = 0
			if err := v.out.Send(batch.Frames, uint64(batch.Mark)); err != nil {
				return err
			}
		} else if time.Since(v.out.Wrote()) >= heartbeat {
			if err := v.out.Comment("keepalive"); err != nil {
				return err
			}
		}
		if len(batch.Frames) == 0 {
			tick.Reset(heartbeat - time.Since(v.out.Wrote()))
		}
	}
}

func (v *viewer) sendPending() error {
	if v.pending == nil {
		return nil
	}
	event := v.pending
	v.pending = nil
	return v.out.Send(event, 0)
}

func (v *viewer) detach() {
	if v.cur != nil {
		v.cur.Close()
	}
}

// resyncLive is resync in the middle of a stream, where nobody else limits how
// long the log and the snapshots may take.
func (v *viewer) resyncLive(ctx context.Context, cause *chunk.TruncatedError) error {
	ctx, cancel := context.WithTimeout(ctx, v.edge.cfg.Attach)
	defer cancel()
	return v.resync(ctx, cause)
}
