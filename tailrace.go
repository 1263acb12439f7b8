// Package tailrace embeds Tailrace in a Go program: it opens the streams, runs agents, writes and reads sessions, and serves browsers over HTTP.
//
//	tr, err := tailrace.Open(ctx, js, tailrace.Config{Create: true})
//	tr.Agent("support", workers.AgentFunc(support))
//	handler, err := tr.Handler(tailrace.Loopback(), tailrace.Options{ChatAgents: []string{"support"}})
//	go http.ListenAndServe("127.0.0.1:4480", handler) // point useChat at /api/chat
//	err = tr.Run(ctx)                                 // until ctx ends
//	err = tr.Close()
//
// The program owns the NATS connection and the HTTP server. Any number of programs, and processes of the command tailrace, may work on the same streams: a
// session that one of them starts is run by the agent of any other, and read by all.
//
// Methods that take an id mean the root session with that id in the tenant of Config.Tenant. Start, Resume, Answer, Stop and Status return an *Error for a
// request that is refused; the other methods return errors of package chunk, such as chunk.ErrUnknownSession.
package tailrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// Config configures a Tailrace. The zero Config is for a deployment with the default names, whose streams exist.
type Config struct {
	Layout   subjects.Layout // names of subjects, streams and buckets, and the number of partitions: the same for all programs of a deployment
	Create   bool            // Open creates missing streams; without it a missing one is an error, and `tailrace setup` creates it, with more settings
	Replicas int             // of new streams: 1, or 3 on a cluster, which tolerates the loss of one server; defaults to 1
	Tenant   string          // of the methods that take an id, and of Loopback; defaults to "default"
	Memory   int64           // bytes that an edge and a projector may use for records, requests and snapshots; defaults to 1 GiB

	Log     *slog.Logger          // gets warnings, errors and debug messages; defaults to none
	Metrics prometheus.Registerer // of the metrics, all tailrace_*; each Tailrace of a process needs another one; defaults to none
	Tracer  trace.TracerProvider  // gets the spans of requests, runs, steps and tool calls; defaults to none
}

const defaultTenant = "default"

func (c Config) withDefaults() (Config, error) {
	c.Tenant = cmp.Or(c.Tenant, defaultTenant)
	c.Memory = cmp.Or(c.Memory, 1<<30)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Memory < 1<<20 {
		return c, fmt.Errorf("tailrace: Memory is %d, want at least 1 MiB", c.Memory)
	}
	if err := subjects.CheckToken("Tenant", c.Tenant); err != nil {
		return c, fmt.Errorf("tailrace: %w", err)
	}
	return c, nil
}

// Tailrace reads and writes sessions, and runs the roles of this process. Its methods may be called concurrently, except where they say when.
type Tailrace struct {
	*parts

	by *chunk.Principal // that makes the requests; nil if it is not known
}

// parts are what a Tailrace and its copies of As share.
type parts struct {
	cfg       Config
	js        jetstream.JetStream
	process   *roles.Process
	reader    *consumers.Reader
	snapshots *projector.Reader
	producer  *producers.Producer

	mu         sync.Mutex // guards the following
	agents     map[string]workers.Agent
	agentErr   error // of the first wrong call of Agent
	edge       *roles.Edge
	hasRun     bool
	agentTypes []string // of Agent, Handler and Start
	requests   *conversation.Service
}

// Open creates the missing streams or checks them, see Config.Create. Several programs may do so at the same time. It starts nothing but the goroutine that
// receives the acknowledgements of writes: call Close at the end. The error says what differs from the required streams, or which field of cfg is wrong.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Tailrace, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	streams := topology.Config{Layout: cfg.Layout, Replicas: cfg.Replicas}
	if cfg.Create {
		err = topology.Ensure(ctx, js, streams)
	} else if err = topology.Check(ctx, js, streams); errors.As(err, new(*topology.DiffError)) {
		err = fmt.Errorf("Create is not set, so that streams are checked only: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("tailrace: %w", err)
	}
	p := &parts{cfg: cfg, js: js, agents: make(map[string]workers.Agent), process: roles.New(roles.Config{
		JS: js, Layout: cfg.Layout, Memory: cfg.Memory, Metrics: cfg.Metrics, Tracer: cfg.Tracer, Log: cfg.Log,
		OnUnavailable: func(err error) { cfg.Log.Warn("nats unavailable, waiting", "error", err) },
	})}
	reader, store, err := p.process.NewReaders()
	if err != nil {
		return nil, err
	}
	p.reader, p.snapshots = reader, projector.NewReader(store, reader)
	if p.producer, err = p.process.NewProducer(producers.Config{}); err != nil {
		return nil, err
	}
	return &Tailrace{parts: p}, nil
}

// As returns a Tailrace whose requests and runs are those of a user or program: the log and the inbox have it with each message, answer, stop and run. The
// first one that starts a session is its owner. It does not limit what the Tailrace may do, and shares everything else with t.
func (t *Tailrace) As(by chunk.Principal) *Tailrace { return &Tailrace{parts: t.parts, by: &by} }

// Close closes the runs of Write and releases the resources of Open, but not the connection. It is called after Run has returned. A second call returns nil.
func (t *Tailrace) Close() error { return t.producer.Close() }

func (t *Tailrace) session(id string) (chunk.Session, error) {
	return chunk.RootSession(t.cfg.Tenant, id), subjects.CheckID("session", id)
}
