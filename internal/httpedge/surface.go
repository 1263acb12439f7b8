package httpedge

import (
	"net/http"
	"path"

	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// Mount makes the Edge serve a group of paths in addition to its own, for the hosts that it serves itself. Requests of the Surface are counted with those of the Edge, and Drain drains it.
// Mount must be called before the first request. Packages chat and agentserver mount themselves.
func (e *Edge) Mount(s *httpkit.Surface) { e.surfaces = append(e.surfaces, s) }

// Policies returns what a client needs for each route of the Edge and of its surfaces.
func (e *Edge) Policies() []httpkit.Policy {
	list := e.router.Policies()
	for _, s := range e.surfaces {
		list = append(list, s.Policies()...)
	}
	return list
}

// Shared returns the settings, the limits and the live records that the surfaces of this module take from the Edge.
func (e *Edge) Shared() *access.Shared {
	return &access.Shared{Access: e.access, Views: e.cfg.Views, Shared: httpkit.Shared{
		Auth: e.cfg.Authenticator, Authorizer: e.access, Tenants: e.cfg.Tenants, Audit: e.auditor(), Origins: e.cfg.Origins, Unreachable: e.cfg.Unreachable, Heartbeat: e.cfg.Heartbeat, WriteTimeout: e.cfg.WriteTimeout, DrainPeriod: e.cfg.DrainPeriod,
		MaxStreamAge: e.cfg.MaxStreamAge, Revocations: e.cfg.Revocations, Tracer: e.cfg.TracerProvider,
		Streams: e.limiter, Rates: e.rates, Bodies: e.bodies, Pages: surfacePages{e}, Hub: e.hub, Metrics: e.cfg.Metrics, Log: e.cfg.Log,
	}}
}

// surfaceOf returns the Surface that serves a request, nil if it is the Edge itself. A path that is not clean, and a host that is not served, are for the Edge
// to reject. It is not inlined, so that its frame is not on the stack of open streams.
//
//go:noinline
func (e *Edge) surfaceOf(r *http.Request) *httpkit.Surface {
	at := r.URL.EscapedPath() // the id of a session may have a slash
	if len(e.surfaces) == 0 || path.Clean(at) != at || !e.cfg.Host(httpkit.Hostname(r.Host)) {
		return nil
	}
	for _, s := range e.surfaces {
		if s.Match(at) {
			return s
		}
	}
	return nil
}
