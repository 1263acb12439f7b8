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
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

// StartWaiter is the log as it grows.
type StartWaiter interface {
	// WaitStarted returns nil when the log has a record of the session, at once or as soon
	// as there is one; otherwise the error of ctx, or of a log that cannot be asked.
	WaitStarted(ctx context.Context, s chunk.Session) error
}

// Config shapes a Server. All but the members that have a default are required.
type Config struct {
	// Conversation is the logic, shared with the chats of the same tenant: so an answer is checked by the same rules on both surfaces.
	Conversation *conversation.Service

	StartWaiter StartWaiter

	// EventsHandler serves GET /v1/sessions/{id}/events: an *sseedge.Edge. /sse is handed to
	// it, so that both send the same bytes.
	EventsHandler http.Handler

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
	Bodies *sseedge.BodyLimiter

	// Streams is where /sse has its place while it waits for a run to begin: that of
	// Events, which counts it from then on. Defaults to its own, with the default
	// limits.
	Streams *sseedge.StreamLimiter

	// RequestTimeout is how long a request may take, and how long /sse waits for the first
	// word of a run that was asked for. Defaults to 15 seconds: longer than a queue
	// and an inbox try to find out whether something was stored.
	RequestTimeout time.Duration

	// Log receives errors of dependencies, never texts of users. Defaults to none.
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
		c.Bodies = sseedge.NewBodyLimiter(0)
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 15 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Streams == nil {
		c.Streams = sseedge.NewStreamLimiter(sseedge.Limits{}, nil, c.Log)
	}
	c.Origins = slices.Clone(c.Origins)
	return c
}

func (c Config) validate() error {
	if c.Conversation == nil || c.StartWaiter == nil || c.EventsHandler == nil {
		return errors.New("want all of Conversation, StartWaiter and EventsHandler")
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
	if c.RequestTimeout < 0 {
		return fmt.Errorf("RequestTimeout is %s, want more than 0", c.RequestTimeout)
	}
	return nil
}

// Server is the surface. It is an http.Handler, and starts no goroutine.
type Server struct {
	cfg     Config
	router  *httpkit.Router
	respond *httpkit.Responder
	waiting httpkit.Drain // of requests that wait for a run to begin
}

// New returns a Server over what Config names.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("agentserver: %w", err)
	}
	s := &Server{cfg: cfg, respond: &httpkit.Responder{Form: httpkit.ErrorCode, Log: cfg.Log}}
	var err error
	s.router, err = httpkit.NewRouter(s.routes(), httpkit.Options{
		Prefix: strings.TrimSuffix(cfg.Prefix, "/"), OtherName: "agents_other", Origins: cfg.Origins, Respond: s.respond,
	})
	if err != nil {
		return nil, fmt.Errorf("agentserver: %w", err)
	}
	return s, nil
}
