package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
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
	Answer(ctx context.Context, a inbox.Answer) error
	Answers(ctx context.Context, s chunk.Session, run string) ([]inbox.Answer, error)
	Stop(ctx context.Context, s inbox.Stop) error
}

// Config shapes a Service. Snapshots, Commands, Inbox, Live and AgentTypes are
// required.
type Config struct {
	Snapshots Snapshots
	Commands  Commands
	Inbox     Inbox
	Live      Live

	// AgentTypes are those that a chat may be with. The first is the one that a new
	// chat is with when the request names none.
	AgentTypes []string

	// Tenant is whose sessions the chats are. Defaults to "default".
	Tenant string

	// Dialect says what a client is told.
	Dialect aisdk.Options

	// Origins are those whose pages may post, beside our own; the pages of all
	// others are refused. They are as sseedge.CORS takes them.
	Origins []string

	// MaxBody bounds a request, in bytes: a client sends the whole conversation.
	// Defaults to 8 MiB.
	MaxBody int64

	// Bodies bounds all requests that are being read at one time. Defaults to its own,
	// with the default bound. The time that one may take is sseedge.ServerConfig's.
	Bodies *sseedge.Bodies

	// Room is where streams have their places, that of the Edge beside. Defaults to
	// its own, with the default limits.
	Room *sseedge.Room

	// Heartbeat is the longest silence on a stream; then a comment is sent.
	// Defaults to 15 seconds.
	Heartbeat time.Duration

	// Patience is how long a client may take nothing before it is cut. Defaults to
	// 10 seconds.
	Patience time.Duration

	// Attach is how long a request may take until its stream begins. Defaults to 15
	// seconds: longer than a queue and an inbox try to find out whether something
	// was stored.
	Attach time.Duration

	// Spread is the time over which Drain cuts the open streams. Defaults to 10
	// seconds.
	Spread time.Duration

	// Metrics is where the figures of the chats are registered, all tailrace_chat_*.
	// Defaults to nil: nothing is registered.
	Metrics prometheus.Registerer

	// Clock is the time by which deadlines are judged. Defaults to time.Now.
	Clock func() time.Time

	// Log hears of what went wrong on our side. Never of what people say. Defaults
	// to silence.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Tenant == "" {
		c.Tenant = "default"
	}
	if c.MaxBody == 0 {
		c.MaxBody = 8 << 20
	}
	if c.Bodies == nil {
		c.Bodies = sseedge.NewBodies(0)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Attach == 0 {
		c.Attach = 15 * time.Second
	}
	if c.Spread == 0 {
		c.Spread = 10 * time.Second
	}
	if c.Clock == nil {
		c.Clock = time.Now
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
	if c.Snapshots == nil || c.Commands == nil || c.Inbox == nil || c.Live == nil {
		return errors.New("Snapshots, Commands, Inbox or Live is nil, want all of them")
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
	if c.MaxBody < 0 {
		return fmt.Errorf("MaxBody is %d, want more than 0", c.MaxBody)
	}
	for name, d := range map[string]time.Duration{"Heartbeat": c.Heartbeat, "Patience": c.Patience, "Attach": c.Attach, "Spread": c.Spread} {
		if d < 0 {
			return fmt.Errorf("%s is %s, want more than 0", name, d)
		}
	}
	return nil
}

// Service serves chats. It is an http.Handler, and starts no goroutine
// that outlives a request.
type Service struct {
	cfg     Config
	csrf    *http.CrossOriginProtection
	open    *streams
	metrics *metrics
}

// New returns a Service over what Config names.
func New(cfg Config) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	s := &Service{cfg: cfg, csrf: http.NewCrossOriginProtection(), open: newStreams()}
	for _, origin := range cfg.Origins {
		if err := s.csrf.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("chat: Origins: %w", err)
		}
	}
	if cfg.Metrics != nil {
		var err error
		if s.metrics, err = newMetrics(cfg.Metrics, s); err != nil {
			return nil, fmt.Errorf("chat: %w", err)
		}
	}
	return s, nil
}
