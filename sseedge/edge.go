package sseedge

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/tailrace/tailrace/sseedge/hub"
)

// Edge is an http.Handler. It starts no goroutine.
type Edge struct {
	hub       *hub.Hub
	snapshots Snapshots
	past      Past // nil: there is none
	rewinds   rewinds
	csrf      http.CrossOriginProtection
	cfg       Config
	room      *Room
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
		room:      NewRoom(cfg.Limits, cfg.TrustedProxies, cfg.Log),
		streams:   make(map[*stream]context.CancelCauseFunc),
		empty:     make(chan struct{}),
	}
	e.past, _ = snapshots.(Past)
	if cfg.Metrics != nil {
		var err error
		if e.metrics, err = newMetrics(cfg.Metrics, e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// ServeHTTP answers one request.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = e.metrics.watch(w, r, routeName)
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
	serve, allowed, p := e.route(r)
	if allowed != "" {
		w.Header().Set("Allow", allowed)
	}
	switch {
	case p != nil:
		e.refuse(w, p)
	case r.ContentLength != 0:
		e.refuse(w, newProblem(http.StatusRequestEntityTooLarge, codeBody, "no body is read here", ""))
	default:
		serve(w, r)
	}
}

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
