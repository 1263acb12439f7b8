package httpkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/subjects"
)

// Route is one path and method, with its policy: Scope, or Public.
type Route struct {
	Name   string // in metrics
	Method string
	Path   string // as docs/openapi.yaml has it; may have one segment {id}, and one segment {run} or {value} behind it, which is r.PathValue("run")

	// Scope has the rights that a client needs, all of them. AnyOf has rights of which it needs one in addition; 0 for none.
	Scope, AnyOf auth.Scope

	// Public is set for a route without Scope that is served to everyone: whether the process is alive, and files of a page.
	Public bool

	// OtherID is set if {id} is not the id of a session. It may be any text then, which Serve checks.
	OtherID bool

	// Tickets is set for a route that also accepts a ticket in its query, see Options.Tickets.
	Tickets bool

	// Stream is set for a route for GET that opens an event stream. It has places, see Limits, and no rate: a 429 would end the reconnections of an EventSource.
	// Only the requests that are refused or end at once have one, so that credentials, tickets and ids cannot be tried quickly, nor a log read again and again.
	Stream bool

	// Serve handles a request; id is the segment {id}, "" for a path without one. A Problem that it returns is written by the router. The context of r has the
	// Grant, unless the route is public.
	Serve func(w http.ResponseWriter, r *http.Request, id string) *Problem

	// Refuse writes the response to a request that is not served, and to one for which Serve returns a Problem. nil writes the Problem.
	Refuse func(w http.ResponseWriter, r *http.Request, p *Problem)

	// Act, if not empty, is recorded in the audit log when Serve returns: as done, or as failed for a Problem from 500. It is for acts that package conversation
	// does not record. The session, or the token, is {id}; Serve may name more with audit.Describe.
	Act audit.Act

	// WithoutLog is set for a route that is served while the log is unreachable: it does not need the log, or waits for it. Public ones always are.
	WithoutLog bool

	// OnProblem is called for each problem that Serve returns, or that a request gets instead of Serve because the log is unreachable. nil for none.
	OnProblem func(*http.Request, *Problem)

	// Disabled makes it a path that is not served here, but known to the metrics.
	Disabled bool

	title string // method and path, with the prefix
}

// Options are the policies that hold for all routes of a Router.
type Options struct {
	Prefix      string   // in front of all paths, "" for none
	OtherName   string   // in metrics, of a request that is not of a route
	NameMethods bool     // a request with a method that its path does not have is also OtherName
	Head        bool     // routes for GET also serve HEAD
	Origins     []string // trusted for requests with unsafe methods, as http.CrossOriginProtection has them

	// Authenticator is asked once for each request of a route that is not public. Required.
	Authenticator auth.Authenticator

	// Tickets is asked before Authenticator for a route with Tickets; nil for none. A request with a ticket is decided by it alone.
	Tickets auth.Authenticator

	// Rates bounds the requests of all routes that are neither public nor streams, and the refused requests of streams; nil for none.
	Rates *RateLimiter

	// Audit, if not nil, gets the acts of Route.Act, and the refused accesses: responses with the status 401, 403 and 404 of routes that are not public, and
	// sessions that the client must not know.
	Audit *Auditor

	// Tracer gets spans of the requests that may change something and whose client was identified, as parts of the traces of their clients; nil for none.
	Tracer trace.TracerProvider

	// Tenants returns the handler that serves the requests of a tenant instead of this Router, nil if there is none. It gets a request of a route that is not
	// public, with its Grant, before anything is found out about its session. nil is none for every tenant.
	Tenants func(tenant string) http.Handler

	// Authorizer finds out whether a client that lacks a right knows that the session {id} exists. Without it no client does.
	Authorizer Authorizer

	Unknown *Problem // of a session that does not exist, or that the client must not know; nil is NotFound
	BadID   *Problem // of an id that is not a token
	HasBody *Problem // of a request with a body; nil where routes read bodies

	// Unreachable reports whether the log has been unreachable for so long that a request that needs it gets NoLog at once. nil is never.
	Unreachable func() bool
	NoLog       *Problem // required with Unreachable

	Respond *Responder
}

// Router serves routes. Paths are matched exactly and by hand: http.ServeMux would redirect an unclean path to a clean one.
type Router struct {
	routes []Route
	o      Options
	csrf   *http.CrossOriginProtection

	refused refusals
}

// NewRouter returns a Router. It refuses a route without a policy: everything is denied that a route does not allow.
func NewRouter(routes []Route, o Options) (*Router, error) {
	if o.Respond == nil || o.Respond.Log == nil {
		return nil, errors.New("Respond is nil or has no Log")
	}
	if o.Unreachable != nil && o.NoLog == nil {
		return nil, errors.New("NoLog is nil, want the problem of Unreachable")
	}
	if o.Authenticator == nil {
		return nil, errors.New("Authenticator is nil")
	}
	for _, rt := range routes {
		if rt.Stream && rt.Method != http.MethodGet {
			return nil, fmt.Errorf("route %s %s: Stream is for GET", rt.Method, rt.Path)
		}
		if rt.Serve == nil || rt.Public == (rt.Scope != 0) || rt.Public && rt.AnyOf != 0 {
			return nil, fmt.Errorf("route %s %s: want Serve, and either Scope or Public", rt.Method, rt.Path)
		}
	}
	if o.Unknown == nil {
		o.Unknown = NotFound
	}
	rr := &Router{routes: slices.Clone(routes), o: o, csrf: http.NewCrossOriginProtection()}
	for i := range rr.routes {
		rr.routes[i].Path = o.Prefix + rr.routes[i].Path
		rr.routes[i].title = rr.routes[i].Method + " " + rr.routes[i].Path
	}
	for _, origin := range o.Origins {
		if err := rr.csrf.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("Origins: %w", err)
		}
	}
	return rr, nil
}

// Routes returns all routes, disabled ones too, as "GET /v1/events".
func (rr *Router) Routes() []string {
	list := make([]string, len(rr.routes))
	for i, rt := range rr.routes {
		list[i] = rt.Method + " " + rt.Path
	}
	return list
}

// Policy is what a client needs for a route.
type Policy struct {
	Method, Path  string
	Scope, AnyOf  auth.Scope // as Route has them
	Public        bool
	Rated         bool // has a rate
	NamesSessions bool // the path has {id}
}

// Policies returns the policies of all routes that are served.
func (rr *Router) Policies() []Policy {
	var list []Policy
	for _, rt := range rr.routes {
		if !rt.Disabled {
			list = append(list, Policy{rt.Method, rt.Path, rt.Scope, rt.AnyOf, rt.Public, rt.rated(rt.Method), rt.namesSession()})
		}
	}
	return list
}

// namesSession reports whether the path has the id of a session.
func (rt *Route) namesSession() bool { return strings.Contains(rt.Path, "{id}") && !rt.OtherID }

// Name returns the name in metrics of the route of a request.
func (rr *Router) Name(r *http.Request) string {
	path := r.URL.EscapedPath()
	for _, rt := range rr.routes {
		if _, _, ok := matchPath(rt.Path, path); ok && (!rr.o.NameMethods || rt.Method == r.Method) {
			return rt.Name
		}
	}
	return rr.o.OtherName
}

// ServeHTTP serves one request.
func (rr *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	granted, rt, id, next := rr.admit(w, r)
	switch {
	case next != nil:
		next.ServeHTTP(w, granted)
		return
	case rt == nil:
		return
	}
	p, began := rr.needsLog(rt), time.Now()
	ctx := granted.Context()
	switch {
	case p != nil:
	case rr.o.Tracer != nil && isTraced(granted):
		p = rr.trace(w, granted, rt, id)
	case rt.Act != "":
		p = rr.act(w, granted, rt, id)
	default:
		p = rt.Serve(w, granted, id)
	}
	if p != nil {
		rr.fail(ctx, w, r, rt, id, p) // net/http keeps r anyway; a stream that kept the other one too would need another 300 bytes
	} else if rt.Stream && !rt.rated(r.Method) && time.Since(began) < briefStream {
		rr.o.Rates.countBrief(r)
	}
}

//go:noinline
func (rr *Router) fail(ctx context.Context, w http.ResponseWriter, r *http.Request, rt *Route, id string, p *Problem) {
	rr.recordDenial(ctx, rt, id, p)
	if rt.OnProblem != nil {
		rt.OnProblem(r, p)
	}
	rr.refuse(w, r, rt, p)
}

// admit returns the route of a request and the request with its Grant, or the handler that serves the tenant, or writes the response that refuses it. It is not
// inlined, so that its frame is not on the stack of open streams.
//
//go:noinline
func (rr *Router) admit(w http.ResponseWriter, r *http.Request) (admitted *http.Request, rt *Route, id string, next http.Handler) {
	rt, escaped, p := rr.match(w, r)
	if p == nil && rr.csrf.Check(r) != nil {
		// A page of another origin must not act for the user that opened it, nor reach an edge inside the network of that user. Methods without effect always
		// pass.
		p = CrossOrigin
	}
	if p != nil {
		if p == CrossOrigin {
			rr.recordRefusal(r, rt, p)
		}
		rr.o.Respond.Problem(w, p)
		return nil, nil, "", nil
	}
	if r, p = rr.identify(w, r, rt); p != nil {
		if isRefusal(p) {
			rr.recordRefusal(r, rt, p)
		}
		rr.refuse(w, r, rt, p)
		return nil, nil, "", nil
	}
	if !rt.Public && rr.o.Tenants != nil {
		if next = rr.o.Tenants(GrantOf(r.Context()).Tenant); next != nil {
			return r, nil, "", next
		}
	}
	if id, p = rr.check(r, rt, escaped); p == nil {
		p = rr.authorize(r, rt, id)
	}
	if p != nil {
		rr.recordDenial(r.Context(), rt, id, p)
		rr.refuse(w, r, rt, p)
		return nil, nil, "", nil
	}
	return r, rt, id, nil
}

// identify returns the request with the Grant of its client, if the route is not public, or the problem of a client that has none, or that makes too many
// requests. The address is counted before the credential is verified, which costs more.
func (rr *Router) identify(w http.ResponseWriter, r *http.Request, rt *Route) (*http.Request, *Problem) {
	if rt.Public {
		return r, nil
	}
	if _, ok := authn.FromContext(r.Context()); ok {
		return r, nil // another router has identified and counted the client, and hands the request on
	}
	rated := rt.rated(r.Method)
	if p := rr.o.Rates.admitAddress(r, rated); p != nil {
		return r, p
	}
	r, p := rr.authenticate(w, r, rt)
	if p == nil && rated {
		p = rr.o.Rates.admitGrant(GrantOf(r.Context()))
		r = rr.o.Rates.named(r)
	}
	return r, p
}

// rated reports whether Rates hold for all requests of a route with a method. HEAD opens no stream, and so takes no place.
func (rt *Route) rated(method string) bool {
	return !rt.Public && (!rt.Stream || method == http.MethodHead)
}

// refuse writes the response to a request that is not served.
func (rr *Router) refuse(w http.ResponseWriter, r *http.Request, rt *Route, p *Problem) {
	if rt.Stream && isRefusal(p) && !rt.rated(r.Method) {
		rr.o.Rates.countBrief(r)
	}
	if rt.Refuse != nil {
		rt.Refuse(w, r, p)
		return
	}
	rr.o.Respond.Problem(w, p)
}

// match finds the route of a request and its segment {id}, or the problem that it gets.
func (rr *Router) match(w http.ResponseWriter, r *http.Request) (*Route, string, *Problem) {
	path := r.URL.EscapedPath()
	var methods []string
	for i := range rr.routes {
		rt := &rr.routes[i]
		escaped, run, ok := matchPath(rt.Path, path)
		if !ok || rt.Disabled {
			continue
		}
		head := rr.o.Head && rt.Method == http.MethodGet
		if rt.Method != r.Method && (!head || r.Method != http.MethodHead) {
			methods = append(methods, rt.Method)
			if head {
				methods = append(methods, http.MethodHead)
			}
			continue
		}
		if run != "" {
			r.SetPathValue("run", run)
		}
		return rt, escaped, nil
	}
	if methods == nil {
		return nil, "", NotFound
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	return nil, "", NewProblem(http.StatusMethodNotAllowed, CodeMethod, "this method is not for this path", "want one of "+allowed)
}

// check applies the policies that do not depend on the client to a request of a route.
func (rr *Router) check(r *http.Request, rt *Route, escaped string) (id string, p *Problem) {
	if strings.Contains(rt.Path, "{id}") {
		var err error
		if id, err = url.PathUnescape(escaped); err != nil || rt.namesSession() && subjects.CheckID("id", id) != nil {
			return "", rr.o.BadID.OfLength(id)
		}
	}
	if strings.Contains(rt.Path, "{run}") && subjects.CheckToken("run", r.PathValue("run")) != nil { // a token has nothing to unescape
		return "", rr.o.BadID.OfLength(r.PathValue("run"))
	}
	if rr.o.HasBody != nil && r.ContentLength != 0 {
		return "", rr.o.HasBody
	}
	return id, nil
}

// needsLog returns the problem of a request that would fail when its timeout is over.
func (rr *Router) needsLog(rt *Route) *Problem {
	if rr.o.Unreachable == nil || rt.WithoutLog || rt.Public || !rr.o.Unreachable() {
		return nil
	}
	return rr.o.NoLog
}

// matchPath reports whether path is one of a pattern, and returns the segments {id} and {run} as they were sent. Segments are taken from the escaped path and
// decoded once, so that an escaped slash does not separate two.
func matchPath(pattern, path string) (id, run string, ok bool) {
	for more := true; more; {
		var want, got string
		var gotMore bool
		want, pattern, more = strings.Cut(pattern, "/")
		got, path, gotMore = strings.Cut(path, "/")
		switch want {
		case "{id}":
			id = got
		case "{run}", "{value}":
			run = got
		case got:
		default:
			return "", "", false
		}
		if gotMore != more {
			return "", "", false
		}
	}
	return id, run, true
}

// maxQuery bounds a query, in bytes.
const maxQuery = 8 << 10

// Errors of ParseQuery; their texts are for clients.
var (
	ErrQueryTooLong    = errors.New("query too long")
	ErrQueryUnreadable = errors.New("malformed query")
)

// ParseQuery parses a query of at most 8 KiB.
func ParseQuery(u *url.URL) (url.Values, error) {
	if len(u.RawQuery) > maxQuery {
		return nil, ErrQueryTooLong
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, ErrQueryUnreadable
	}
	return values, nil
}
