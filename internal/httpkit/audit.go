package httpkit

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/authn"
)

// Auditor records acts and refused accesses of requests. The nil *Auditor records nothing.
type Auditor struct {
	Log     *audit.Log
	Proxies []netip.Prefix // whose X-Forwarded-For is trusted
}

// address returns the address that Limits count, "" for a socket of this machine. It has the network of an IPv6 client, not its host.
func (a *Auditor) address(r *http.Request) string {
	if addr := clientAddress(r, a.Proxies); addr.IsValid() {
		return addr.String()
	}
	return ""
}

// withAudit returns the context of a request that was authenticated.
func (rr *Router) withAudit(r *http.Request, rt *Route, g *auth.Grant) context.Context {
	ctx := authn.NewContext(r.Context(), g)
	if a := rr.o.Audit; a != nil {
		ctx = a.Log.NewContext(ctx, g.Tenant, PrincipalOf(g), rt.title, a.address(r))
	}
	return ctx
}

// isRefusal reports whether the response to a client with another credential could be different.
func isRefusal(p *Problem) bool {
	return p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden || p.Status == http.StatusNotFound
}

// recordRefusal records the refusal of a request without a Grant.
func (rr *Router) recordRefusal(r *http.Request, rt *Route, p *Problem) {
	if a := rr.o.Audit; a != nil && rt != nil && !rt.Public {
		a.Log.Refuse(audit.Event{Route: rt.title, Address: a.address(r), Status: p.Status, Reason: p.Code})
	}
}

// recordDenial records the refusal of a request with a Grant.
func (rr *Router) recordDenial(ctx context.Context, rt *Route, id string, p *Problem) {
	if rr.o.Audit != nil && !rt.Public && isRefusal(p) {
		audit.RefuseRequest(ctx, rt.target(ctx, id), p.Status, p.Code)
	}
}

// target returns the names of what a request is for, by its segment {id}.
func (rt *Route) target(ctx context.Context, id string) audit.Event {
	switch {
	case id == "":
		return audit.Event{}
	case rt.OtherID:
		return audit.Event{Target: clip(id)}
	}
	return audit.Event{Session: chunk.RootSession(GrantOf(ctx).Tenant, id)}
}

// clip bounds a text that a client chooses: subjects have up to 255 bytes, ids of tokens fewer.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 256)], "") }

// act serves a route with an Act, and records it.
func (rr *Router) act(w http.ResponseWriter, r *http.Request, rt *Route, id string) *Problem {
	e := rt.target(r.Context(), id)
	e.Act = rt.Act
	return rr.o.Respond.Act(r.Context(), e, func() *Problem { return rt.Serve(w, r, id) })
}

// Act carries out an act of a request, and records it. It is for a route whose act depends on the body; Route.Act is for the others.
func (o *Responder) Act(ctx context.Context, e audit.Event, serve func() *Problem) *Problem {
	end, err := audit.Begin(ctx, e)
	if err != nil {
		o.Log.WarnContext(ctx, "act refused", "act", e.Act, "error", err)
		return NoAudit
	}
	p := serve()
	switch {
	case p == nil:
		end(audit.Done)
	case p.Status >= http.StatusInternalServerError:
		end(audit.Failed)
	}
	return p
}

// NoAudit is the problem of an act that is refused because its event cannot be stored.
var NoAudit = NewProblem(http.StatusServiceUnavailable, CodeUnavailable, "the audit log cannot be reached, and no act is carried out without it", "retry later")
