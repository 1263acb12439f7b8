package agentserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// sse serves GET /sse: the events of /v1/sessions/{id}/events, with its cursors, parameters and refusals.
//
// A parent requests the events right after the response of /start, possibly before a worker has started the run. The log does not have such a session yet, so
// the edge would respond that it does not exist. sse waits for the start instead.
func (s *Server) sse(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return httpkit.Invalid("the query cannot be read")
	}
	of, p := s.delegation(r, query.Get("sessionId"), false)
	if p == nil && !query.Has("root") { // a sub-agent is in the log of its root
		p = s.wait(r, of)
	}
	if p != nil {
		return p
	}
	query.Del("sessionId")
	events := r.WithContext(r.Context()) // with the same header, from which the edge removes the credential
	events.URL = (&url.URL{Path: "/v1/sessions"}).JoinPath(url.PathEscape(of.id), "events")
	events.URL.RawQuery = query.Encode()
	s.edge.ServeHTTP(w, events)
	return nil
}

// wait reserves a stream and calls awaitBegin.
func (s *Server) wait(r *http.Request, of delegation) *httpkit.Problem {
	release, p := s.shared.Streams.Acquire(r, of.session)
	if p != nil {
		return p
	}
	defer release()
	ctx, leave, ok := s.surface.Streams.Enter(r.Context())
	if !ok {
		return draining
	}
	defer leave()
	p = s.awaitBegin(ctx, of)
	if p != nil && errors.Is(context.Cause(ctx), httpkit.ErrDrained) {
		return draining
	}
	return p
}

// awaitBegin returns when the log has the session, if it was started.
func (s *Server) awaitBegin(ctx context.Context, of delegation) *httpkit.Problem {
	ctx, cancel := context.WithTimeout(ctx, s.logic.RequestTimeout())
	defer cancel()
	started, refusal := of.logic.Started(ctx, of.session)
	var err error
	if refusal == nil && !started {
		err = s.waitStarted(ctx, of.session)
	}
	switch {
	case refusal == nil && err == nil:
		return nil
	case ctx.Err() != nil && (err != nil || refusal.Reason == conversation.ReasonUnavailable):
		return notStarted
	case err != nil:
		refusal = s.logic.Failed(ctx, of.session, "events", err)
	}
	return problemOf(refusal)
}

// withRequestTimeout returns the context of a request. It is not cancelled if the client disconnects.
func (s *Server) withRequestTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.logic.RequestTimeout())
}
