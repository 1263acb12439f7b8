package chat

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Service. Snapshots, Commands, Inbox, Follower and AgentTypes are
// required.
type Config struct {
	Snapshots conversation.Snapshots
	Commands  conversation.Queue
	Inbox     conversation.Inbox
	Follower  Follower

	// AgentTypes are those that a chat may be with. The first is the one that a new
	// chat is with when the request names none.
	AgentTypes []string

	// Tenant is whose sessions the chats are. Defaults to "default".
	Tenant string

	// Dialect selects what a client gets.
	Dialect aisdk.Options

	// Origins are those whose pages may post, beside our own; the pages of all
	// others are refused. They are as sseedge.CORS takes them.
	Origins []string

	// MaxBody bounds a request, in bytes: a client sends the whole conversation.
	// Defaults to 8 MiB.
	MaxBody int64

	// Bodies bounds all requests that are being read at one time. Defaults to its own,
	// with the default bound. The time that one may take is sseedge.ServerConfig's.
	Bodies *sseedge.BodyLimiter

	// Streams is where streams have their places, that of the Edge beside. Defaults to
	// its own, with the default limits.
	Streams *sseedge.StreamLimiter

	// Heartbeat is the longest silence on a stream; then a comment is sent.
	// Defaults to 15 seconds.
	Heartbeat time.Duration

	// WriteTimeout is how long a client may take nothing before it is cut. Defaults to
	// 10 seconds.
	WriteTimeout time.Duration

	// StartTimeout is how long a request may take until its stream begins. Defaults to 15
	// seconds: longer than a queue and an inbox try to find out whether something
	// was stored.
	StartTimeout time.Duration

	// DrainPeriod is the time over which Drain cuts the open streams. Defaults to 10
	// seconds.
	DrainPeriod time.Duration

	// Metrics is where the figures of the chats are registered, all tailrace_chat_*.
	// Defaults to nil: nothing is registered.
	Metrics prometheus.Registerer

	// Clock is the time that decides whether a deadline has passed. Defaults to time.Now.
	Clock func() time.Time

	// Log receives errors of dependencies, never texts of users. Defaults to none.
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
		c.Bodies = sseedge.NewBodyLimiter(0)
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 10 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 15 * time.Second
	}
	if c.DrainPeriod == 0 {
		c.DrainPeriod = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Streams == nil {
		c.Streams = sseedge.NewStreamLimiter(sseedge.Limits{}, nil, c.Log)
	}
	c.AgentTypes, c.Origins = slices.Clone(c.AgentTypes), slices.Clone(c.Origins)
	return c
}

func (c Config) validate() error {
	if c.Snapshots == nil || c.Commands == nil || c.Inbox == nil || c.Follower == nil {
		return errors.New("want all of Snapshots, Commands, Inbox and Follower")
	}
	if err := subjects.CheckToken("Tenant", c.Tenant); err != nil {
		return err
	}
	if c.MaxBody < 0 {
		return fmt.Errorf("MaxBody is %d, want more than 0", c.MaxBody)
	}
	for name, d := range map[string]time.Duration{"Heartbeat": c.Heartbeat, "WriteTimeout": c.WriteTimeout, "StartTimeout": c.StartTimeout, "DrainPeriod": c.DrainPeriod} {
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
	logic   *conversation.Service
	router  *httpkit.Router
	respond *httpkit.Responder
	open    httpkit.Drain
	metrics *metrics
}

// New returns a Service over what Config names.
func New(cfg Config) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	s := &Service{cfg: cfg, respond: &httpkit.Responder{Form: httpkit.ErrorCode, Log: cfg.Log}}
	var err error
	s.logic, err = conversation.New(conversation.Ports{Snapshots: cfg.Snapshots, Queue: cfg.Commands, Inbox: cfg.Inbox},
		conversation.Config{AgentTypes: cfg.AgentTypes, RequestTimeout: cfg.StartTimeout, Clock: cfg.Clock, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	s.router, err = httpkit.NewRouter(s.routes(), httpkit.Options{OtherName: "chat_other", NameMethods: true, Origins: cfg.Origins, BadID: badSession, Respond: s.respond})
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	if cfg.Metrics != nil {
		if s.metrics, err = newMetrics(cfg.Metrics, s); err != nil {
			return nil, fmt.Errorf("chat: %w", err)
		}
	}
	s.logic.Observe(conversation.Observer{Accepted: s.metrics.accepted, Requested: s.metrics.requested, Refused: s.metrics.refused})
	return s, nil
}

// Conversation returns the logic of the chats, for surfaces beside them.
func (s *Service) Conversation() *conversation.Service { return s.logic }
