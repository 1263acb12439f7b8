package roles

import (
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/agentserver"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/credentials"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/ingest"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

// RequestTimeout is the longest time that a request takes until its response or stream begins: that of a message whose command, or answer, is stored with an unknown outcome.
const RequestTimeout = 15 * time.Second

// minBytes is the least memory for bodies, twice what the largest request needs: 8 MiB, the half of it beside that while its buffer grows, and the quarter that is
// kept for small ones. It leaves a share to each kind of read, too.
const minBytes = 32 << 20

// EdgeConfig configures an Edge and its surfaces. Layout, Sessions, Eraser, TracerProvider, Metrics, Log, BodyBytes and ReadBytes are set by NewEdge.
type EdgeConfig struct {
	httpedge.Config

	Interest bool // the edge follows the sessions that it serves, and not whole partitions
	Delete   bool // sessions can be deleted

	ChatAgents  []string                  // may be started by chats; without one there are no chats
	AgentServer string                    // prefix of the HTTP API that starts agents for other systems; "" is none
	Storage     func(chunk.Session) error // of conversation.Config
	MaxRuns     func(tenant string) int   // of runs.Config; nil is unlimited

	Credentials *credentials.Config // nil: credentials are not turned into others
	Ingest      bool                // agents may write runs over HTTP
	Producers   producers.Config    // of the ingest and, for its MaxSessionBytes, of chats
}

// Edge is an edge with its surfaces.
type Edge struct {
	*httpedge.Edge

	writer *producers.Producer // of the ingest; nil without one
}

// NewEdge returns an edge. It sends no request.
func (p *Process) NewEdge(cfg EdgeConfig) (*Edge, error) {
	reader, store, err := p.NewReaders()
	if err != nil {
		return nil, err
	}
	cfg.Layout, cfg.Sessions, cfg.TracerProvider, cfg.Metrics, cfg.Log = p.Layout, store, p.Tracer, p.Metrics, p.Log
	cfg.BodyBytes, cfg.ReadBytes = max(minBytes, p.Memory/4), max(minBytes, p.Memory/4)
	if cfg.Interest {
		if cfg.Feed, err = jsinterest.New(p.JS, jsinterest.Config{Layout: p.Layout, Log: p.Log}); err != nil {
			return nil, err
		}
	}
	if cfg.Delete {
		if cfg.Eraser, err = p.newEraser(store, nil); err != nil {
			return nil, err
		}
	}
	edge, err := httpedge.New(reader, projector.NewReader(store, reader), cfg.Config)
	if err != nil {
		return nil, err
	}
	if cfg.Credentials != nil {
		routes := *cfg.Credentials
		routes.Tickets = cfg.Tickets
		if _, err := credentials.New(edge, routes); err != nil {
			return nil, err
		}
	}
	reaper, err := p.Reaper()
	if err != nil {
		return nil, err
	}
	e := &Edge{Edge: edge}
	if len(cfg.ChatAgents) > 0 {
		err = e.mountAgents(p, cfg, reaper)
	}
	if cfg.Ingest && err == nil {
		err = e.mountIngest(p, cfg, reaper)
	}
	return e, err
}

// mountAgents adds the surfaces that start agents to the edge: the chats of the AI SDK, and the HTTP API for other systems.
func (e *Edge) mountAgents(p *Process, cfg EdgeConfig, reaper *workers.Reaper) error {
	logic, err := runs.New(p.JS, runs.Config{Layout: p.Layout, Reaper: reaper, MaxRuns: cfg.MaxRuns, Config: conversation.Config{
		AgentTypes: cfg.ChatAgents, Storage: cfg.Storage, Audit: cfg.Audit, Log: p.Log,
		RequestTimeout: RequestTimeout, MaxSessionBytes: cfg.Producers.MaxSessionBytes,
	}})
	if err != nil {
		return err
	}
	_, err = chat.New(e.Edge, logic, chat.Config{Dialect: cfg.AISDK})
	if err != nil || cfg.AgentServer == "" {
		return err
	}
	if _, err := agentserver.New(e.Edge, logic, agentserver.Config{Prefix: cfg.AgentServer}); err != nil {
		return fmt.Errorf("agent-server: %w", err)
	}
	return nil
}

// mountIngest adds the paths through which agents write runs over HTTP.
func (e *Edge) mountIngest(p *Process, cfg EdgeConfig, reaper *workers.Reaper) (err error) {
	if e.writer, err = p.NewProducer(cfg.Producers); err != nil {
		return err
	}
	runs := jsingest.New(e.writer, dialects.NewTranslator)
	runs.OnEnd(reaper.StartQueued)
	if _, err := ingest.New(e.Edge, runs, ingest.Config{MaxRuns: cfg.MaxRuns}); err != nil {
		return errors.Join(err, e.writer.Close())
	}
	return nil
}

// Close closes the producer of the ingest, after the last request.
func (e *Edge) Close() error {
	if e.writer == nil {
		return nil
	}
	return e.writer.Close()
}
