package agentserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

// Snapshots are the folds of sessions. *projector.Reader is one.
type Snapshots interface {
	// Snapshot is the fold of a session up to the present end of its log, complete
	// and exact, or chunk.ErrUnknownSession.
	Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error)
}

// Commands is the work queue. *commands.Queue is one, and its documentation is
// the contract.
type Commands interface {
	Request(ctx context.Context, c commands.Command, after commands.Revision) error
	Pending(ctx context.Context, s chunk.Session, agentType string) (commands.Command, commands.Revision, error)
}

// Inbox keeps what people say to runs. *inbox.Box is one, and its documentation
// is the contract.
type Inbox interface {
	Answers(ctx context.Context, s chunk.Session, run string) ([]inbox.Answer, error)
	Stop(ctx context.Context, s inbox.Stop) error
}

// Live is the log as it grows.
type Live interface {
	// Begun returns nil when the log has a record of the session, at once or as soon
	// as there is one; otherwise the error of ctx, or of a log that cannot be asked.
	Begun(ctx context.Context, s chunk.Session) error
}

// Config shapes a Server. All but the members that have a default are required.
type Config struct {
	Snapshots Snapshots
	Commands  Commands
	Inbox     Inbox
	Live      Live

	// Events serves GET /v1/sessions/{id}/events: an *sseedge.Edge. /sse is handed to
	// it, so that both send the same bytes.
	Events http.Handler

	// Answers serves POST /api/chat/{id}/answers: a *chat.Service of the same tenant.
	// /submit-tool-result is handed to it, so that an answer is judged by the same
	// rules whichever way it comes.
	Answers http.Handler

	// AgentTypes are those that may be started.
	AgentTypes []string

	// Prefix is in front of all paths; "/" is none. Defaults to "/agents".
	Prefix string

	// Tenant is whose sessions these are. Defaults to "default".
	Tenant string

	// Origins are those whose pages may post, beside our own; the pages of all
	// others are refused. They are as sseedge.CORS takes them.
	Origins []string

	// MaxBody bounds a request, in bytes. Defaults to 1 MiB.
	MaxBody int64

	// Bodies bounds all requests that are being read at one time; those of the chats
	// beside may be among them. Defaults to its own, with the default bound.
	Bodies *sseedge.Bodies

	// Room is where /sse has its place while it waits for a run to begin: that of
	// Events, which counts it from then on. Defaults to its own, with the default
	// limits.
	Room *sseedge.Room

	// Patience is how long a request may take, and how long /sse waits for the first
	// word of a run that was asked for. Defaults to 15 seconds: longer than a queue
	// and an inbox try to find out whether something was stored.
	Patience time.Duration

	// Log hears of what went wrong on our side. Never of what was said. Defaults to
	// silence.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "/agents"
	}
	if c.Tenant == "" {
		c.Tenant = "default"
	}
	if c.MaxBody == 0 {
		c.MaxBody = 1 << 20
	}
	if c.Bodies == nil {
		c.Bodies = sseedge.NewBodies(0)
	}
	if c.Patience == 0 {
		c.Patience = 15 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Room == nil {
		c.Room = sseedge.NewRoom(sseedge.Limits{}, nil, c.Log)
	}
	c.AgentTypes, c.Origins = slices.Clone(c.AgentTypes), slices.Clone(c.Origins)
	return c
}

func (c Config) validate() error {
	if c.Snapshots == nil || c.Commands == nil || c.Inbox == nil || c.Live == nil || c.Events == nil || c.Answers == nil {
		return errors.New("Snapshots, Commands, Inbox, Live, Events or Answers is nil, want all of them")
	}
	if len(c.AgentTypes) == 0 {
		return errors.New("AgentTypes is empty, want one at least")
	}
	for _, name := range c.AgentTypes {
		if err := subjects.CheckToken("AgentTypes", name); err != nil {
			return err
		}
	}
	if err := subjects.CheckToken("Tenant", c.Tenant); err != nil {
		return err
	}
	if !strings.HasPrefix(c.Prefix, "/") || path.Clean(c.Prefix) != c.Prefix {
		return fmt.Errorf("Prefix is %q, want a clean path with a slash in front and none behind", c.Prefix)
	}
	if c.MaxBody < 0 {
		return fmt.Errorf("MaxBody is %d, want more than 0", c.MaxBody)
	}
	if c.Patience < 0 {
		return fmt.Errorf("Patience is %s, want more than 0", c.Patience)
	}
	return nil
}

// Server is the surface. It is an http.Handler, and starts no goroutine.
type Server struct {
	cfg    Config
	prefix string // "" for none
	csrf   *http.CrossOriginProtection

	waiting waiting
}

// New returns a Server over what Config names.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("agentserver: %w", err)
	}
	s := &Server{cfg: cfg, prefix: strings.TrimSuffix(cfg.Prefix, "/"), csrf: http.NewCrossOriginProtection()}
	for _, origin := range cfg.Origins {
		if err := s.csrf.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("agentserver: Origins: %w", err)
		}
	}
	return s, nil
}
