package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/ingestion"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures a Server. The zero Config is ready for production.
type Config struct {
	// MaxLine is the maximum size of a line, and of the body of a request without lines, in bytes. Defaults to 44 MiB: the largest value in base64. Both count for the
	// memory of bodies.
	MaxLine int

	// RequestTimeout bounds the requests without lines, the storing of queued lines when a request ends, and the time between two pieces of an unfinished line of
	// more than 4 KiB, each as long as all before it. Defaults to 15 seconds.
	RequestTimeout time.Duration

	// MaxRuns, if not nil, returns how many runs of a tenant may have a request with lines at a time on the Edge; 0 is unlimited. Another request gets 429.
	MaxRuns func(tenant string) int
}

func (c Config) withDefaults() Config {
	c.MaxLine = cmp.Or(c.MaxLine, 44<<20)
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 15*time.Second)
	return c
}

func (c Config) validate() error {
	if c.MaxLine < 0 || c.RequestTimeout < 0 {
		return fmt.Errorf("MaxLine and RequestTimeout are %d and %s, want more than 0", c.MaxLine, c.RequestTimeout)
	}
	return nil
}

// Server serves the ingest of runs on an Edge.
type Server struct {
	cfg     Config
	shared  *access.Shared
	runs    ingestion.Runs
	surface *httpkit.Surface
	respond *httpkit.Responder
	metrics *metrics

	mu   sync.Mutex // guards open
	open map[ingestion.Run]*slot
}

// slot is the request that writes a run on this edge.
type slot struct {
	cancel context.CancelCauseFunc
	stream bool // has lines, perhaps for long
	done   chan struct{}
}

// New mounts the ingest on edge.
func New(edge *httpedge.Edge, runs ingestion.Runs, cfg Config) (*Server, error) {
	if edge == nil || runs == nil {
		return nil, errors.New("ingest: the edge or its runs is nil, want both")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	shared := edge.Shared()
	s := &Server{
		cfg: cfg.withDefaults(), shared: shared, runs: runs, respond: &httpkit.Responder{Log: shared.Log}, open: map[ingestion.Run]*slot{},
	}
	var err error
	s.surface, err = shared.NewSurface(s.routes(), httpkit.Options{OtherName: "ingest_other", BadID: badID, NoLog: unavailable, Respond: s.respond})
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	s.surface.DrainPeriod = shared.DrainPeriod
	if shared.Metrics != nil {
		if s.metrics, err = newMetrics(shared.Metrics, s); err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
	}
	edge.Mount(s.surface)
	return s, nil
}

const (
	runsPath = "/v1/sessions/{id}/runs"
	runPath  = runsPath + "/{run}"
)

func (s *Server) routes() []httpkit.Route {
	route := func(name, method, path string, serve func(http.ResponseWriter, *http.Request, string) *httpkit.Problem) httpkit.Route {
		return httpkit.Route{Name: "ingest_" + name, Method: method, Path: path, Scope: auth.ScopeIngest, Serve: serve}
	}
	return []httpkit.Route{
		route("open", http.MethodPost, runsPath, s.openRun),
		route("state", http.MethodGet, runPath, s.state),
		route("chunks", http.MethodPost, runPath+"/chunks", s.chunks),
		route("events", http.MethodPost, runPath+"/events", s.events),
		route("end", http.MethodPost, runPath+"/end", s.end),
		route("fail", http.MethodPost, runPath+"/fail", s.fail),
		route("pause", http.MethodPost, runPath+"/pause", s.pause),
		route("cleanup", http.MethodPost, runPath+"/cleanup", s.cleanup),
	}
}

// parameters are those of the requests.
var parameters = []string{"root", "epoch", "firstLine", "dialect", "strict"}

// session returns the session of a request. fresh: the client may only start it, because it has sessions of its own and this one has no owner yet.
func (s *Server) session(r *http.Request, id string, starts bool) (of chunk.Session, fresh bool, p *httpkit.Problem) {
	query, err := httpkit.ParseQuery(r.URL)
	if err != nil {
		return of, false, httpkit.Invalid(err.Error())
	}
	if p := httpkit.UnknownParameter(query, parameters); p != nil {
		return of, false, p
	}
	root := cmp.Or(query.Get("root"), id)
	if subjects.CheckID("root", root) != nil {
		return of, false, httpkit.Invalid("root: want 1 to 64 characters of a URI")
	}
	of, fresh, known, err := s.shared.Access.Writable(r.Context(), root, id, starts)
	switch {
	case err != nil:
		s.shared.Log.WarnContext(r.Context(), "owner of the session not read", "session", of.String(), "error", err)
		return of, false, unavailable
	case !known:
		return of, false, noRun
	}
	return of, fresh, nil
}

// run returns the run of a request. needsEpoch: it must have the fencing token.
func (s *Server) run(r *http.Request, id string, needsEpoch bool) (ingestion.Run, *httpkit.Problem) {
	session, _, p := s.session(r, id, false)
	if p != nil {
		return ingestion.Run{}, p
	}
	run := ingestion.Run{Session: session, ID: r.PathValue("run")}
	text := cmp.Or(r.URL.Query().Get("epoch"), r.Header.Get("Tailrace-Epoch"))
	if text == "" && !needsEpoch {
		return run, nil
	}
	epoch, err := strconv.ParseUint(text, 10, 53)
	if err != nil || epoch == 0 {
		return run, httpkit.Invalid("epoch: want the number that the open run has")
	}
	run.Epoch = chunk.Epoch(epoch)
	return run, nil
}

var errSuperseded = errors.New("a later request writes the run")

// takeForLines is take for a request with lines, unless the tenant has as many runs with one as it may.
func (s *Server) takeForLines(ctx context.Context, run ingestion.Run) (_ context.Context, release func(), p *httpkit.Problem) {
	if s.cfg.MaxRuns != nil {
		limit, others := s.cfg.MaxRuns(run.Session.Tenant), 0
		s.mu.Lock()
		for other, at := range s.open {
			if at.stream && other != run && other.Session.Tenant == run.Session.Tenant {
				others++
			}
		}
		s.mu.Unlock()
		if limit > 0 && others >= limit {
			return nil, nil, httpkit.TenantRuns
		}
	}
	ctx, release = s.take(ctx, run, true)
	return ctx, release, nil
}

// take waits until another request of this edge that writes the run has ended. One with lines is ended: it stores what it has read, and the new one continues behind
// that. Requests of other edges are found in the log.
func (s *Server) take(ctx context.Context, run ingestion.Run, stream bool) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	mine := &slot{cancel, stream, make(chan struct{})}
	s.mu.Lock()
	before := s.open[run]
	s.open[run] = mine
	s.mu.Unlock()
	if before != nil {
		if before.stream {
			before.cancel(errSuperseded)
		}
		select {
		case <-before.done:
		case <-ctx.Done():
		}
	}
	return ctx, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[run] == mine {
			delete(s.open, run)
		}
		close(mine.done)
	}
}
