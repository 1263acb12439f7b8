package sseedge

import (
	"errors"
	"net/http"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// Edge is an http.Handler. It starts no goroutine.
type Edge struct {
	hub       *hub.Hub
	snapshots Snapshots
	past      History // nil if snapshots has none
	rewinds   historyLimiter
	cfg       Config
	respond   *httpkit.Responder
	router    *httpkit.Router
	limiter   *StreamLimiter
	metrics   *metrics
	streams   httpkit.Drain
}

// New returns an Edge over a Hub, which the caller runs.
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
		limiter:   NewStreamLimiter(cfg.Limits, cfg.TrustedProxies, cfg.Log),
	}
	e.past, _ = snapshots.(History)
	e.respond = &httpkit.Responder{RetryAfter: e.retry, Log: cfg.Log}
	var err error
	e.router, err = httpkit.NewRouter(e.routes(), httpkit.Options{OtherName: "other", Head: true, BadID: badSession, HasBody: hasBody, Respond: e.respond})
	if err != nil {
		return nil, err
	}
	if cfg.Metrics != nil {
		if e.metrics, err = newMetrics(cfg.Metrics, e); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// ServeHTTP serves one request.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = e.metrics.watch(w, r, e.router.Name)
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// No route reads a body. Without this net/http would read it before it responds, as slowly as it arrives. (In HTTP/2 the stream is reset, and the
		// connection remains.)
		w.Header().Set("Connection", "close")
	}
	if !e.cfg.Host(httpkit.Hostname(r.Host)) {
		e.respond.Problem(w, misdirected)
		return
	}
	e.router.ServeHTTP(w, r)
}

// StreamLimiter returns the limiter of the Edge, for surfaces beside it.
func (e *Edge) StreamLimiter() *StreamLimiter { return e.limiter }
