package sseedge

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/subjects"
)

// Edge is an http.Handler. It starts no goroutine.
type Edge struct {
	hub       *hub.Hub
	snapshots Snapshots
	cfg       Config
	limits    *limiter
	metrics   *metrics

	mu       sync.Mutex // guards the fields below
	draining bool
	streams  map[*stream]context.CancelCauseFunc
	empty    chan struct{} // closed when draining and the last stream is gone
}

// New returns an Edge over a Hub that the caller runs.
func New(h *hub.Hub, snapshots Snapshots, cfg Config) (*Edge, error) {
	if h == nil || snapshots == nil {
		return nil, errors.New("hub or snapshots is nil, want both")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkViews(h, cfg.Views); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	e := &Edge{
		hub:       h,
		snapshots: snapshots,
		cfg:       cfg,
		limits:    newLimiter(cfg.Limits, cfg.Log),
		streams:   make(map[*stream]context.CancelCauseFunc),
		empty:     make(chan struct{}),
	}
	if cfg.Metrics != nil {
		var err error
		if e.metrics, err = newMetrics(cfg.Metrics, e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// ServeHTTP answers one request. The routes are few and matched by hand: a mux
// answers an unclean path with a redirect to a clean one, and what a stranger
// sends is to be refused, not repaired.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = e.metrics.watch(w, r)
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// A body is not read and not waited for, whatever the answer is: the
		// connection is given up with it. Else net/http reads the body before it
		// answers, as slowly as it comes. (In HTTP/2 it is a stream that is given
		// up, and others share the rest.)
		w.Header().Set("Connection", "close")
	}
	if !e.cfg.Host(hostname(r.Host)) {
		e.refuse(w, newProblem(http.StatusMisdirectedRequest, codeMisdirected, "this host is not served here", ""))
		return
	}
	serve, p := e.route(r.URL)
	switch {
	case p != nil:
		e.refuse(w, p)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		e.refuse(w, newProblem(http.StatusMethodNotAllowed, codeMethod, "only GET and HEAD", ""))
	case r.ContentLength != 0:
		e.refuse(w, newProblem(http.StatusRequestEntityTooLarge, codeBody, "no body is read here", ""))
	default:
		serve(w, r)
	}
}

// route finds the handler of a path. Segments are taken from the path as it was
// sent and decoded once, so that an escaped slash does not make two of one.
func (e *Edge) route(u *url.URL) (http.HandlerFunc, *problem) {
	path := u.EscapedPath()
	switch path {
	case "/healthz":
		return e.healthz, nil
	case "/readyz":
		return e.readyz, nil
	case "/v1/events":
		return e.manyEvents, nil
	}
	rest, ours := strings.CutPrefix(path, "/v1/sessions/")
	escaped, leaf, more := strings.Cut(rest, "/")
	if !ours || !more {
		return nil, notFound
	}
	var serve func(http.ResponseWriter, *http.Request, chunk.Session)
	switch leaf {
	case "events":
		serve = e.events
	case "snapshot":
		serve = e.snapshot
	case "messages":
		serve = e.messages
	default:
		return nil, notFound
	}
	id, err := url.PathUnescape(escaped)
	if err != nil || subjects.CheckToken("session", id) != nil {
		return nil, badSession
	}
	s := chunk.RootSession(e.cfg.Tenant, id)
	return func(w http.ResponseWriter, r *http.Request) { serve(w, r, s) }, nil
}

var badSession = badRequest(codeBadSession, "this is no session id", "want 1 to 64 letters, digits, - or _")

// hostname is the host of a Host header without its port, in lower case.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// LoopbackHost is a Config.Host that knows the names of this machine alone. An
// edge without authentication needs it: a page on any site can otherwise have
// its own name resolved to 127.0.0.1 and read what is served there.
func LoopbackHost(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
