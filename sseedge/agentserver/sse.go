package agentserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge"
)

// sse serves GET /sse: the events of /v1/sessions/{id}/events, with its cursors,
// parameters and refusals.
//
// A parent asks for the events as soon as /start has answered, when no worker may
// have begun. Of such a session the log knows nothing, and the parent would be
// told that it does not exist. It is let wait instead.
func (s *Server) sse(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		s.refuse(w, invalid("the query cannot be read"))
		return
	}
	session, p := s.session(query.Get("sessionId"))
	if p == nil && !query.Has("root") { // a sub-agent is in the log of its root
		p = s.wait(r, session)
	}
	if p != nil {
		s.refuse(w, p)
		return
	}
	query.Del("sessionId")
	events := r.Clone(r.Context())
	events.URL.Path, events.URL.RawPath = "/v1/sessions/"+session.ID+"/events", ""
	events.URL.RawQuery = query.Encode()
	s.cfg.Events.ServeHTTP(w, events)
}

// wait is awaitBegin in the place of a stream.
func (s *Server) wait(r *http.Request, session chunk.Session) *problem {
	leave, err := s.cfg.Room.Enter(r, session)
	if full, isFull := errors.AsType[*sseedge.FullError](err); isFull {
		return &problem{http.StatusServiceUnavailable, full.Text, full.Code}
	}
	defer leave()
	ctx, end := s.waiting.enter(r.Context())
	defer end()
	p := s.awaitBegin(ctx, session)
	if p != nil && errors.Is(context.Cause(ctx), errDrained) {
		return draining
	}
	return p
}

// awaitBegin returns when the log has the session, if somebody has asked for it.
func (s *Server) awaitBegin(ctx context.Context, session chunk.Session) *problem {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	_, known, err := s.snapshot(ctx, session)
	if known {
		return nil
	}
	if err == nil {
		st, lookErr := s.look(ctx, session)
		switch {
		case lookErr != nil:
			err = lookErr
		case st.known:
			return nil
		case !st.exists():
			return noSession
		default:
			err = s.cfg.Live.Begun(ctx, session)
		}
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return notBegun
	}
	return s.failed(ctx, session, "events", err)
}
