package agentserver

import (
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/subjects"
)

// routes returns all routes, below the prefix.
func (s *Server) routes() []httpkit.Route {
	route := func(method, path string, scope auth.Scope, serve func(http.ResponseWriter, *http.Request) *httpkit.Problem) httpkit.Route {
		name := "agents_" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "-", "_")
		return httpkit.Route{Name: name, Method: method, Path: path, Scope: scope, Serve: func(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
			return serve(w, r)
		}}
	}
	stream := route(http.MethodGet, "/sse", auth.ScopeRead, s.sse)
	stream.Stream = true
	return []httpkit.Route{
		route(http.MethodPost, "/start", auth.ScopeChat, s.start),
		route(http.MethodPost, "/resume", auth.ScopeChat, s.resume),
		stream,
		route(http.MethodGet, "/status", auth.ScopeRead, s.status),
		route(http.MethodPost, "/submit-tool-result", auth.ScopeAnswer, s.submit),
		route(http.MethodPost, "/interrupt", auth.ScopeStop, s.interrupt),
		route(http.MethodPost, "/abort", auth.ScopeStop, s.abort),
	}
}

// delegation is the session of a request.
type delegation struct {
	id      string                // for the response
	session chunk.Session         // another one if the client must not know that with the id, see access.Access
	logic   *conversation.Service // works for the client
}

// delegation returns the root session with an id that a request has, under the view of the client: that of the parameter view, or the default one. For starts, see
// access.Access.Conversation.
func (s *Server) delegation(r *http.Request, id string, starts bool) (delegation, *httpkit.Problem) {
	if subjects.CheckID("sessionId", id) != nil {
		return delegation{}, badSession
	}
	query, err := httpkit.ParseQuery(r.URL)
	if err != nil {
		return delegation{}, httpkit.Invalid(err.Error())
	}
	_, shows, p := s.shared.Chat(r.Context(), query.Get("view"))
	if p != nil {
		return delegation{}, p
	}
	session, caller, err := s.shared.Access.Conversation(r.Context(), id, shows, starts)
	if err != nil {
		return delegation{}, problemOf(s.logic.Failed(r.Context(), session, "owner", err))
	}
	return delegation{id, session, s.logic.As(caller)}, nil
}

// read reads the body of a POST into v. Unknown members are ignored. Depth is left to the parser, whose limit is 10,000, and to the log.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) *httpkit.Problem {
	return s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: s.cfg.MaxBody}, httpkit.Into(v, wrongBody))
}

const wrongBody = "the body is not what this path takes"
