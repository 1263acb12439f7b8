package agentserver

import (
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/subjects"
)

// routes returns all routes, below the prefix.
func (s *Server) routes() []httpkit.Route {
	route := func(method, path, scope string, serve func(http.ResponseWriter, *http.Request) *httpkit.Problem) httpkit.Route {
		name := "agents_" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "-", "_")
		return httpkit.Route{Name: name, Method: method, Path: path, Scope: scope, Serve: func(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
			return serve(w, r)
		}}
	}
	return []httpkit.Route{
		route(http.MethodPost, "/start", httpkit.ScopeWrite, s.start),
		route(http.MethodPost, "/resume", httpkit.ScopeWrite, s.resume),
		route(http.MethodGet, "/sse", httpkit.ScopeRead, s.sse),
		route(http.MethodGet, "/status", httpkit.ScopeRead, s.status),
		route(http.MethodPost, "/submit-tool-result", httpkit.ScopeWrite, s.submit),
		route(http.MethodPost, "/interrupt", httpkit.ScopeWrite, s.interrupt),
		route(http.MethodPost, "/abort", httpkit.ScopeWrite, s.abort),
	}
}

// RouteName implements sseedge.Surface.
func (s *Server) RouteName(r *http.Request) string { return s.router.Name(r) }

// Match implements sseedge.Surface.
func (s *Server) Match(path string) bool { return s.router.Match(path) }

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.router.ServeHTTP(w, r) }

// session is the root session with an id that a request names.
func (s *Server) session(id string) (chunk.Session, *httpkit.Problem) {
	if subjects.CheckToken("sessionId", id) != nil {
		return chunk.Session{}, badSession
	}
	return chunk.RootSession(s.shared.Tenant, id), nil
}

// read reads the body of a POST into v. Unknown members are ignored. Depth is left to the parser, whose limit is 10,000, and to the log.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) *httpkit.Problem {
	return s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: s.cfg.MaxBody}, httpkit.Into(v, wrongBody))
}

const wrongBody = "the body is not what this path takes"
