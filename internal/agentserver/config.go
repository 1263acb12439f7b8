package agentserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// Config configures a Server. The zero Config is ready for production behind an authenticating proxy.
type Config struct {
	// Prefix precedes all paths; "/" is no prefix. Defaults to "/agents".
	Prefix string

	// MaxBody is the maximum size of a request in bytes. Defaults to 1 MiB.
	MaxBody int64
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, "/agents")
	c.MaxBody = cmp.Or(c.MaxBody, 1<<20)
	return c
}

func (c Config) validate() error {
	if !strings.HasPrefix(c.Prefix, "/") || path.Clean(c.Prefix) != c.Prefix {
		return fmt.Errorf("Prefix is %q, want a clean path with a slash in front and none behind", c.Prefix)
	}
	if c.MaxBody < 0 {
		return fmt.Errorf("MaxBody is %d, want more than 0", c.MaxBody)
	}
	return nil
}

// Server serves delegation, as a surface of an Edge. It starts no goroutine.
type Server struct {
	cfg         Config
	edge        *httpedge.Edge
	shared      *access.Shared
	logic       *conversation.Service
	waitStarted func(ctx context.Context, s chunk.Session) error
	surface     *httpkit.Surface // its streams are requests that wait for a run to begin: the edge has those with events
	respond     *httpkit.Responder
}

// New mounts the routes of delegation on an Edge, which serves the events. Package runs assembles its logic; package chat may have the same.
func New(edge *httpedge.Edge, logic *conversation.Service, cfg Config) (*Server, error) {
	if edge == nil || logic == nil {
		return nil, errors.New("agentserver: the edge or its logic is nil, want both")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("agentserver: %w", err)
	}
	shared := edge.Shared()
	s := &Server{cfg: cfg, edge: edge, shared: shared, logic: logic, respond: &httpkit.Responder{Form: httpkit.ErrorCode, Log: shared.Log}}
	s.waitStarted = s.waitForRecord
	var err error
	s.surface, err = shared.NewSurface(s.routes(), httpkit.Options{
		Prefix: strings.TrimSuffix(cfg.Prefix, "/"), OtherName: "agents_other", Unknown: noSession, NoLog: unavailable, Respond: s.respond,
	})
	if err != nil {
		return nil, fmt.Errorf("agentserver: %w", err)
	}
	edge.Mount(s.surface)
	return s, nil
}

// waitForRecord returns nil when the log has a record of the session; otherwise the error of ctx or of the log. Requests that wait share the feed of the hub
// with those that stream the session.
func (s *Server) waitForRecord(ctx context.Context, session chunk.Session) error {
	cur, err := s.shared.Hub.Subscribe(ctx, hub.Request{Session: session, KeepOpen: true})
	if err != nil {
		return err
	}
	defer cur.Close()
	_, err = cur.Next(ctx, nil)
	return err
}
