package sseedge

import (
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

const (
	sessionsPath = "/v1/sessions"
	sessionPath  = "/v1/sessions/{id}"
)

// routes returns all routes of an Edge.
func (e *Edge) routes() []httpkit.Route {
	get := func(name, path, scope string, serve func(http.ResponseWriter, *http.Request, string) *httpkit.Problem) httpkit.Route {
		return httpkit.Route{Name: name, Method: http.MethodGet, Path: path, Scope: scope, Serve: serve}
	}
	stream := func(path string, serve func(http.ResponseWriter, *http.Request, string) *httpkit.Problem) httpkit.Route {
		rt := get("events", path, httpkit.ScopeRead, serve)
		rt.WithoutLog = true // the records of the hub are served, and the rejection of an EventSource has to be its own
		return rt
	}
	list := get("sessions", sessionsPath, httpkit.ScopeRead, e.sessions)
	list.Disabled = e.cfg.Sessions == nil
	return []httpkit.Route{
		get("healthz", "/healthz", httpkit.ScopePublic, e.healthz),
		stream("/v1/events", e.multiSessionEvents),
		stream(sessionPath+"/events", e.events),
		get("snapshot", sessionPath+"/snapshot", httpkit.ScopeRead, e.snapshot),
		get("messages", sessionPath+"/messages", httpkit.ScopeRead, e.messages),
		get("tree", sessionPath+"/tree", httpkit.ScopeRead, e.tree),
		list,
		{Name: "session", Method: http.MethodDelete, Path: sessionPath, Scope: httpkit.ScopeDelete, Serve: e.erase, Disabled: e.cfg.Eraser == nil},
	}
}

// session returns the root session with an id.
func (e *Edge) session(id string) chunk.Session { return chunk.RootSession(e.cfg.Tenant, id) }
