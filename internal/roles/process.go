// Package roles builds the edge, the projector and the workers of one process from the packages of this module, for the command tailrace and for package tailrace.
//
// The callers open the connection, the streams and the listeners; settings and the order of a shutdown are theirs, too. A Process has what its roles share: metrics
// are registered once, and one Reaper ends runs.
package roles

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// Config configures a Process. JS, Memory, Metrics and Log are required.
type Config struct {
	JS     jetstream.JetStream
	Layout subjects.Layout
	// Memory is the memory in bytes of an edge and a projector: a quarter each for live records, request bodies, pages, and the snapshots of the projector.
	Memory int64

	RunTimeout time.Duration // of workers.ReaperConfig
	SaveAfter  time.Duration // of projector.Config

	Metrics prometheus.Registerer
	Tracer  trace.TracerProvider // nil without traces
	Log     *slog.Logger

	OnUnavailable func(error) // is called once by each wait for an unavailable server, see Wait
}

// Process builds the roles of one process.
type Process struct {
	Config

	// Reaper returns the one of the process, which ends the runs without a worker.
	Reaper func() (*workers.Reaper, error)

	published func() func(producers.Outcome, time.Duration, int)
}

// New returns a Process. It sends no request.
func New(cfg Config) *Process {
	p := &Process{Config: cfg}
	p.Reaper = sync.OnceValues(p.newReaper)
	p.published = sync.OnceValue(func() func(producers.Outcome, time.Duration, int) { return metrics.RegisterProducers(p.Metrics) })
	return p
}

// Instance returns the name of this process among those of its role.
func Instance() string {
	host, _ := os.Hostname()
	return cmp.Or(host, "unknown") + "-" + strconv.Itoa(os.Getpid())
}

// NewReader returns a reader of the log.
func (p *Process) NewReader() (*consumers.Reader, error) {
	return consumers.New(p.JS, consumers.Config{Layout: p.Layout, Log: p.Log})
}

// NewStore returns the snapshot store.
func (p *Process) NewStore() (*jssnapshots.Store, error) {
	return jssnapshots.New(p.JS, jssnapshots.Config{Layout: p.Layout, Log: p.Log})
}

// NewReaders returns a reader of the log, and the snapshot store.
func (p *Process) NewReaders() (*consumers.Reader, *jssnapshots.Store, error) {
	reader, err := p.NewReader()
	if err != nil {
		return nil, nil, err
	}
	store, err := p.NewStore()
	return reader, store, err
}

// NewProducer returns a producer with the metrics of the process.
func (p *Process) NewProducer(cfg producers.Config) (*producers.Producer, error) {
	cfg.Layout, cfg.Positions, cfg.Observe, cfg.Log = p.Layout, jssnapshots.NewPositions(p.JS, p.Layout), p.published(), p.Log
	return producers.New(p.JS, cfg)
}

// NewWorkers returns workers with their metrics.
func (p *Process) NewWorkers(cfg workers.Config, agentTypes ...string) (*workers.Workers, error) {
	cfg.Layout, cfg.Log = p.Layout, p.Log
	cfg.Observe, cfg.ObservePublish, cfg.TracerProvider = metrics.NewWorkers(p.Metrics, agentTypes...), p.published(), p.Tracer
	served, err := workers.New(p.JS, cfg)
	if err != nil {
		return nil, err
	}
	metrics.RegisterUsage(p.Metrics, served.UnstoredTokens)
	return served, nil
}

// Wait repeats do while the server is unavailable or has no leader, at most twice per second, and calls unavailable once then. The error is that of do, or that of ctx.
func Wait(ctx context.Context, do func(context.Context) error, unavailable func(error)) error {
	for reported := false; ; {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := do(attempt)
		cancel()
		switch {
		case err == nil || !IsUnavailable(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err() // the process stops just when an attempt has timed out: a regular end, which the timeout is not
		}
		if !reported {
			unavailable(err)
			reported = true
		}
		if err := wait.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// codeStreamOffline is the error of a stream whose replicas are all offline, with the status of a request that cannot succeed.
const codeStreamOffline jetstream.ErrorCode = 10118

// IsUnavailable reports whether err means that the server did not process the request.
func IsUnavailable(err error) bool {
	for _, target := range []error{
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, context.DeadlineExceeded, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.Code == 503 || api.ErrorCode == codeStreamOffline)
}
