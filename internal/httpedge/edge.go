package httpedge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/flight"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/wait"
)

// Log is the log of the sessions: their history and their live records.
type Log interface {
	hub.Log
	hub.PartitionLog
}

// Edge is an http.Handler.
type Edge struct {
	log       hub.Log
	hub       *hub.Hub
	snapshots Snapshots
	access    *access.Access
	rewinds   historyLimiter
	turns     flight.Group[turnKey, turnState]
	reads     *readBudget
	searches  *httpkit.Budget
	pages     flight.Group[pageKey, sharedPage]
	summaries *lru.Cache[pageKey, keptSummary]
	cfg       Config
	respond   *httpkit.Responder
	router    *httpkit.Router
	surfaces  []*httpkit.Surface
	sharers   []*Edge // whose LimitsOf this is
	limiter   *httpkit.StreamLimiter
	rates     *httpkit.RateLimiter
	bodies    *httpkit.BodyLimiter
	metrics   *metrics
	streams   httpkit.Drain
	running   atomic.Bool

	notPermitted wait.Throttle // of log lines
}

// New returns an Edge over a log. Its streams wait for Run.
func New(log Log, snapshots Snapshots, cfg Config) (*Edge, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return newEdge(log, snapshots, cfg, cfg.hub())
}

// newEdge takes a Config with defaults.
func newEdge(log Log, snapshots Snapshots, cfg Config, hubConfig hub.Config) (*Edge, error) {
	if log == nil || snapshots == nil {
		return nil, errors.New("log or snapshots is nil, want both")
	}
	feed := cfg.Feed
	if feed == nil {
		feed = hub.ByPartition(log, cfg.Layout.PartitionCount(), cfg.Layout.Partition)
	}
	h, err := hub.New(log, feed, hubConfig)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	e := &Edge{
		log:       log,
		hub:       h,
		snapshots: snapshots,
		cfg:       cfg,
		limiter:   httpkit.NewStreamLimiter(cfg.Limits, cfg.TrustedProxies, cfg.Log),
		bodies:    httpkit.NewBodyLimiter(cfg.BodyBytes),
		reads:     newReadBudget(cfg.ReadBytes),
		searches:  httpkit.NewBudget(maxSearches),
		streams:   httpkit.Drain{Revocations: cfg.Revocations},
	}
	if e.rates, err = httpkit.NewRateLimiter(cfg.Rates, cfg.TrustedProxies); err != nil {
		return nil, err
	}
	if e.summaries, err = lru.New[pageKey, keptSummary](maxSummaries); err != nil {
		return nil, err
	}
	if of := cfg.LimitsOf; of != nil {
		e.limiter, e.bodies, e.reads, e.searches, e.rates = of.limiter, of.bodies, of.reads, of.searches, of.rates
	}
	e.access = &access.Access{Owner: e.owner, OwnedByOther: func(ctx context.Context, root chunk.Session, subject string) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.AttachTimeout)
		defer cancel()
		return snapshots.OwnedByOther(ctx, root, subject)
	}}
	e.respond = &httpkit.Responder{RetryAfter: e.retry, Log: cfg.Log}
	options := httpkit.Options{OtherName: "other", Head: true, BadID: badSession, HasBody: hasBody,
		Authenticator: cfg.Authenticator, Rates: e.rates, Tracer: cfg.TracerProvider, Authorizer: e.access, Tenants: cfg.Tenants, Unknown: noStream, Audit: e.auditor(),
		Unreachable: cfg.Unreachable, NoLog: unavailable, Respond: e.respond}
	if cfg.Tickets != nil { // a nil *auth.Tickets would be an Authenticator that is not nil
		options.Tickets = cfg.Tickets
	}
	e.router, err = httpkit.NewRouter(e.routes(), options)
	if err != nil {
		return nil, err
	}
	if cfg.Metrics != nil {
		if e.metrics, err = newMetrics(cfg.Metrics, e); err != nil {
			return nil, err
		}
	}
	if cfg.LimitsOf != nil {
		cfg.LimitsOf.sharers = append(cfg.LimitsOf.sharers, e)
	}
	return e, nil
}

// Run follows the log until ctx ends, and then returns nil. It may be called once. When it returns, all streams end; drain the Edge before.
func (e *Edge) Run(ctx context.Context) error {
	e.running.Store(true)
	defer e.running.Store(false)
	closing, stop := context.WithCancel(ctx)
	var closer sync.WaitGroup
	closer.Go(func() { e.closeRevoked(closing) })
	defer closer.Wait()
	defer stop()
	return e.hub.Run(ctx)
}

// ServeHTTP serves one request.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.cfg.AccessLog && !httpkit.IsLogged(r) {
		e.serveLogged(w, r)
		return
	}
	e.serve(w, r)
}

// serveLogged is not inlined, so that its frame is not on the stack of other requests.
//
//go:noinline
func (e *Edge) serveLogged(w http.ResponseWriter, r *http.Request) {
	name := e.router.Name(r)
	if s := e.surfaceOf(r); s != nil {
		name = s.Name(r)
	}
	httpkit.LogAccess(e.cfg.Log, e.cfg.TrustedProxies, name, w, r, http.HandlerFunc(e.serve))
}

func (e *Edge) serve(w http.ResponseWriter, r *http.Request) {
	if s := e.surfaceOf(r); s != nil {
		s.ServeHTTP(e.metrics.watch(w, r, s.Name), r)
		return
	}
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

func (e *Edge) auditor() *httpkit.Auditor {
	if e.cfg.Audit == nil {
		return nil
	}
	return &httpkit.Auditor{Log: e.cfg.Audit, Proxies: e.cfg.TrustedProxies}
}
