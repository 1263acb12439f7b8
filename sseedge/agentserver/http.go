package agentserver

import (
	"context"
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
	return []httpkit.Route{
		route(http.MethodPost, "/start", auth.ScopeChat, s.start),
		route(http.MethodPost, "/resume", auth.ScopeChat, s.resume),
		route(http.MethodGet, "/sse", auth.ScopeRead, s.sse),
		route(http.MethodGet, "/status", auth.ScopeRead, s.status),
		route(http.MethodPost, "/submit-tool-result", auth.ScopeAnswer, s.submit),
		route(http.MethodPost, "/interrupt", auth.ScopeStop, s.interrupt),
		route(http.MethodPost, "/abort", auth.ScopeStop, s.abort),
	}
}

// RouteName implements sseedge.Surface.
func (s *Server) RouteName(r *http.Request) string { return s.router.Name(r) }

// Policies implements sseedge.Surface.
func (s *Server) Policies() []httpkit.Policy { return s.router.Policies() }

// Match implements sseedge.Surface.
func (s *Server) Match(path string) bool { return s.router.Match(path) }

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// delegation is the session of a request.
type delegation struct {
	id      string                // for the response
	session chunk.Session         // another one if the client must not know that with the id, see httpkit.Access
	logic   *conversation.Service // works for the client
}

// delegation returns the root session with an id that a request has.
func (s *Server) delegation(ctx context.Context, id string) (delegation, *httpkit.Problem) {
	if subjects.CheckToken("sessionId", id) != nil {
		return delegation{}, badSession
	}
	session, caller := s.shared.Access.Conversation(ctx, id)
	return delegation{id, session, s.logic.As(caller)}, nil
}

// read reads the body of a POST into v. Unknown members are ignored. Depth is left to the parser, whose limit is 10,000, and to the log.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) *httpkit.Problem {
	return s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: s.cfg.MaxBody}, httpkit.Into(v, wrongBody))
}

const wrongBody = "the body is not what this path takes"
