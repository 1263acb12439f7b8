package httpedge

import (
	"context"
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

	source source

	resyncs int // since the last frame

	name        string // the id in the request, if multiplexed
	endEpoch    string // of the stream, if complete
	multiplexed bool   // the connection has other sessions
	complete    bool   // without a cursor: the session is complete
	done        bool   // the session is complete and was delivered
}

// subscribe returns the subscription of a request, in the dialect that its client reads.
func (e *Edge) subscribe(r *http.Request, req hub.Request) (*subscription, *httpkit.Problem) {
	q, name := readQuery(r.URL, "dialect"), req.Encoding
	inline, t := q.readInline(), e.readTurn(q, r.Header, &req)
	if q.problem != nil {
		return nil, q.problem
	}
	v := newSubscription(e, req)
	v.view, v.inline = name, inline
	if t != nil {
		t.Session = v.target()
		v.source = newTurn(v, t)
	}
	return v, nil
}

// newSubscription returns a subscription to the records of a session.
func newSubscription(e *Edge, req hub.Request) *subscription {
	v := &subscription{edge: e, req: req, at: chunk.Cursor{Seq: req.After.Seq, Anchor: req.Anchor}.String()}
	v.source = records{v}
	return v
}

// detach closes what the source has open.
func (v *subscription) detach() {
	v.source.detach()
	if v.cur != nil {
		v.cur.Close()
		v.cur = nil
	}
}

// poll returns the next batch, or the channel to wait for. io.EOF: nothing follows the batch, because the session is complete. After another empty batch it must be called
// again.
func (v *subscription) poll(ctx context.Context) (hub.Batch, <-chan struct{}, error) {
	if v.pending != nil {
		batch := hub.Batch{Frames: v.pending, Records: 1}
		v.pending = nil
		return batch, nil, nil
	}
	return v.source.poll(ctx)
}

// epoch returns the epoch of the stream that the positions of the response belong to, empty if it has none.
func (v *subscription) epoch() string {
	if v.cur == nil {
		return v.endEpoch
	}
	return v.cur.StreamEpoch()
}
