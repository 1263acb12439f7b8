package httpedge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/flight"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
)

// page is a response that is ready to be written.
type page struct {
	text []byte // JSON
	etag string // "" for none
	hold *reservation
}

// complete releases the memory that the page took while it was made, or all of it if there is a problem.
func (g page) complete(p *httpkit.Problem) (page, *httpkit.Problem) {
	if p != nil {
		g.hold.release()
		return page{}, p
	}
	g.hold.shrink(len(g.text))
	return g, nil
}

// pageKey identifies a page: requests with the same key get the same text. It has the position that the log had when the request arrived. Without it,
//  1. client A requests a page, and its read loads the last record,
//  2. client B stores a message, and requests the same page,
//  3. B gets the page of A, without its message.
type pageKey struct {
	session chunk.Session
	seq     chunk.Seq
	anchor  chunk.Anchor
	epoch   string // of the stream, for a page of several sessions
	view    string
	inline  int // see query.readInline
	query   any // comparable
}

// sharedPage is what a load returns.
type sharedPage struct {
	page

	problem *httpkit.Problem
}

// servePage writes the page that load returns. Requests with an equal key share one call of load, whose context ends when none of them is left.
func (e *Edge) servePage(w http.ResponseWriter, r *http.Request, key pageKey, load func(context.Context) (page, *httpkit.Problem)) *httpkit.Problem {
	s, leave, err := e.pages.Hold(r.Context(), key, 0, func(ctx context.Context) (sharedPage, error) {
		page, problem := load(ctx)
		page = e.inline(ctx, key, page)
		context.AfterFunc(ctx, page.hold.release) // when the last request has written it
		return sharedPage{page, problem}, nil
	})
	defer leave()
	if panicked, ok := errors.AsType[*flight.PanicError](err); ok {
		e.cfg.Log.Error("page panicked", "session", key.session.String(), "error", panicked.Value, "stack", string(panicked.Stack))
		return httpkit.Internal
	}
	if err != nil {
		return unavailable // no client receives it
	}
	if s.problem != nil {
		return s.problem
	}
	if key.session.ID != "" {
		w.Header().Set("X-Session-Id", key.session.ID)
	}
	if s.etag == "" {
		w.Header().Set("Cache-Control", "no-store")
	} else {
		// A browser may store it, and revalidates it each time; shared caches may not, because the content depends on the client.
		w.Header().Set("Cache-Control", "private, no-cache")
		w.Header().Set("ETag", s.etag)
		if matches(r.Header, s.etag) {
			w.Header().Del("X-Session-Id")
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	e.writePage(w, s.text)
	return nil
}

// slowestPage is the rate, in bytes per second, below which a client does not receive the whole of a page: its text takes memory until then.
const slowestPage = 64 << 10

func (e *Edge) writePage(w http.ResponseWriter, text []byte) {
	e.writeWithin(w, len(text), func() { e.respond.JSONText(w, http.StatusOK, text) })
}

// writeWithin calls write, which responds with size bytes, with a deadline for the client.
func (e *Edge) writeWithin(w http.ResponseWriter, size int, write func()) {
	control := http.NewResponseController(w)
	limit := e.cfg.WriteTimeout + time.Duration(size/slowestPage)*time.Second
	if control.SetWriteDeadline(time.Now().Add(limit)) != nil { // not a connection: a test
		write()
		return
	}
	write()
	if err := control.Flush(); err != nil {
		e.cfg.Log.Debug("response not delivered", "error", err)
		return
	}
	if err := control.SetWriteDeadline(time.Time{}); err != nil { // for the next request on the connection
		e.cfg.Log.Debug("write deadline not reset", "error", err)
	}
}

// lastPosition sets the position of a session in the key of its page.
func (e *Edge) lastPosition(ctx context.Context, key *pageKey) *httpkit.Problem {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	rec, err := e.log.Last(ctx, key.session)
	if p := e.loadProblem(key.session, err); p != nil && p != noStream { // a stored snapshot may be left
		return p
	}
	key.seq, key.anchor = rec.Seq, rec.Anchor()
	return nil
}

// Read implements httpkit.Pages.
func (e surfacePages) Read(ctx context.Context, load func(context.Context) error) error {
	if ctx.Value(withinBudget{}) != nil {
		return load(ctx)
	}
	_, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (struct{}, error) { return struct{}{}, load(ctx) })
	hold.release()
	switch {
	case errors.Is(err, projector.ErrReadLimit):
		return fmt.Errorf("%w: %w", chunk.ErrTooLarge, err)
	case errors.Is(err, httpkit.ErrBudget):
		e.metrics.readRejected()
	}
	return err
}

// surfacePages implements httpkit.Pages.
type surfacePages struct{ *Edge }

// Serve implements httpkit.Pages.
func (e surfacePages) Serve(w http.ResponseWriter, r *http.Request, s chunk.Session, version any, load func(context.Context) ([]byte, error), problem func(error) *httpkit.Problem) *httpkit.Problem {
	return e.servePage(w, r, pageKey{session: s, query: version}, func(ctx context.Context) (page, *httpkit.Problem) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
		defer cancel()
		text, hold, err := readWithin(ctx, e.reads, load)
		switch {
		case err == nil:
			return page{text: text, hold: hold}.complete(nil)
		case errors.Is(err, httpkit.ErrBudget), errors.Is(err, projector.ErrReadLimit):
			return page{}, e.loadProblem(s, err)
		}
		return page{}, problem(err)
	})
}
