package httpkit

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/subjects"
)

// The scopes of routes: what a client must be allowed to do. They are the hook for authentication, which an edge does not have yet.
const (
	ScopePublic = "public" // anything that can reach the edge
	ScopeRead   = "read"   // sessions
	ScopeWrite  = "write"  // messages, answers, stop requests
	ScopeDelete = "delete" // whole sessions
)

// Route is one path and method.
type Route struct {
	Name   string // in metrics
	Method string
	Path   string // as docs/openapi.yaml has it; may have one segment {id}
	Scope  string

	// Serve handles a request; id is the segment {id}, "" for a path without one. A Problem that it returns is written by the router.
	Serve func(w http.ResponseWriter, r *http.Request, id string) *Problem

	// WithoutLog is set for a route that is served while the log is unreachable: it does not need the log, or waits for it. Those of ScopePublic always are.
	WithoutLog bool

	// OnProblem is called for each problem that Serve returns, or that a request gets instead of Serve because the log is unreachable. nil for none.
	OnProblem func(*http.Request, *Problem)

	// Disabled makes it a path that is not served here, but known to the metrics.
	Disabled bool
}

// Options are the policies that hold for all routes of a Router.
type Options struct {
	Prefix      string   // in front of all paths, "" for none
	OtherName   string   // in metrics, of a request that is not of a route
	NameMethods bool     // a request with a method that its path does not have is also OtherName
	Head        bool     // routes for GET also serve HEAD
	Origins     []string // trusted for requests with unsafe methods, as http.CrossOriginProtection has them

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
}

// NewRouter returns a Router. Every route needs a scope.
func NewRouter(routes []Route, o Options) (*Router, error) {
	if o.Respond == nil || o.Respond.Log == nil {
		return nil, errors.New("Respond is nil or has no Log")
	}
	if o.Unreachable != nil && o.NoLog == nil {
		return nil, errors.New("NoLog is nil, want the problem of Unreachable")
	}
	for _, rt := range routes {
		if rt.Scope == "" || rt.Serve == nil {
			return nil, fmt.Errorf("route %s %s: want Scope and Serve", rt.Method, rt.Path)
		}
	}
	rr := &Router{routes: slices.Clone(routes), o: o, csrf: http.NewCrossOriginProtection()}
	for i := range rr.routes {
		rr.routes[i].Path = o.Prefix + rr.routes[i].Path
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

// Match reports whether a path, as it was sent, is one of a route.
func (rr *Router) Match(path string) bool {
	return slices.ContainsFunc(rr.routes, func(rt Route) bool { _, ok := matchPath(rt.Path, path); return ok })
}

// Name returns the name in metrics of the route of a request.
func (rr *Router) Name(r *http.Request) string {
	path := r.URL.EscapedPath()
	for _, rt := range rr.routes {
		if _, ok := matchPath(rt.Path, path); ok && (!rr.o.NameMethods || rt.Method == r.Method) {
			return rt.Name
		}
	}
	return rr.o.OtherName
}

// ServeHTTP serves one request.
func (rr *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, id, p := rr.match(w, r)
	if p == nil {
		if p = rr.needsLog(rt); p == nil {
			p = rt.Serve(w, r, id)
		}
		if p != nil && rt.OnProblem != nil {
			rt.OnProblem(r, p)
		}
	}
	if p != nil {
		rr.o.Respond.Problem(w, p)
	}
}

// match finds the route of a request, or the problem that it gets. It is not inlined, so that its frame is not on the stack of open streams.
//
//go:noinline
func (rr *Router) match(w http.ResponseWriter, r *http.Request) (*Route, string, *Problem) {
	path := r.URL.EscapedPath()
	var methods []string
	for i := range rr.routes {
		rt := &rr.routes[i]
		escaped, ok := matchPath(rt.Path, path)
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
		id, p := rr.check(r, rt, escaped)
		return rt, id, p
	}
	if methods == nil {
		return nil, "", NotFound
	}
	allowed := strings.Join(methods, ", ")
	w.Header().Set("Allow", allowed)
	return nil, "", NewProblem(http.StatusMethodNotAllowed, CodeMethod, "this method is not for this path", "want one of "+allowed)
}

// check applies the policies to a request of a route.
func (rr *Router) check(r *http.Request, rt *Route, escaped string) (id string, p *Problem) {
	if strings.Contains(rt.Path, "{id}") {
		var err error
		if id, err = url.PathUnescape(escaped); err != nil || subjects.CheckToken("id", id) != nil {
			return "", rr.o.BadID
		}
	}
	if rr.o.HasBody != nil && r.ContentLength != 0 {
		return "", rr.o.HasBody
	}
	// An edge does not authenticate: a page of another origin must not act for the user that opened it, nor reach an edge inside the network of that user.
	// Methods without effect always pass.
	if rr.csrf.Check(r) != nil {
		return "", CrossOrigin
	}
	return id, nil
}

// needsLog returns the problem of a request that would fail when its timeout is over.
func (rr *Router) needsLog(rt *Route) *Problem {
	if rr.o.Unreachable == nil || rt.WithoutLog || rt.Scope == ScopePublic || !rr.o.Unreachable() {
		return nil
	}
	return rr.o.NoLog
}

// matchPath reports whether path is one of a pattern, and returns the segment {id} as it was sent. Segments are taken from the escaped path and
// decoded once, so that an escaped slash does not separate two.
func matchPath(pattern, path string) (id string, ok bool) {
	before, after, hasID := strings.Cut(pattern, "{id}")
	if !hasID {
		return "", path == pattern
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	return rest[:end], rest[end:] == after
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
