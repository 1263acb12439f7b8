package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// Config configures a Service. The zero Config is ready for production.
type Config struct {
	// Dialect selects the form of the frames that a client gets.
	Dialect aisdk.Options

	// MaxBody is the maximum size of a request in bytes: a client sends the whole conversation. Defaults to 8 MiB. httpkit.ServerConfig has the maximum
	// duration of a request.
	MaxBody int64

	// WaitNotice is how long a requested run may wait for a worker until its stream has data-run-waiting, and the log and the metrics report it. It is checked
	// with each heartbeat. Defaults to 30 seconds; a negative value disables it.
	WaitNotice time.Duration
}

// Service serves chats, as a surface of an Edge. It starts no goroutine that outlives a request.
type Service struct {
	cfg     Config
	edge    *httpedge.Edge
	shared  *access.Shared
	logic   *conversation.Service
	follow  func(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error)
	surface *httpkit.Surface
	respond *httpkit.Responder
	forks   *httpkit.Responder // of the route below /v1, whose problems have the form of that
	metrics *metrics

	historyBytes int // see httpedge.Turn, 0 except in tests
}

// recordStream is the position of one reader of the records of a chat. *hub.Cursor implements it.
type recordStream = interface {
	Poll(ctx context.Context) (hub.Batch, <-chan struct{}, error)
	Close()
}

// New mounts chats on an Edge. Package runs assembles its logic.
func New(edge *httpedge.Edge, logic *conversation.Service, cfg Config) (*Service, error) {
	if edge == nil || logic == nil {
		return nil, errors.New("chat: the edge or its logic is nil, want both")
	}
	if cfg.MaxBody < 0 {
		return nil, fmt.Errorf("chat: MaxBody is %d, want more than 0", cfg.MaxBody)
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxBody)
	cfg.WaitNotice = cmp.Or(cfg.WaitNotice, 30*time.Second)
	shared := edge.Shared()
	s := &Service{cfg: cfg, edge: edge, shared: shared, logic: logic, respond: &httpkit.Responder{Form: httpkit.ErrorCode, Log: shared.Log}, forks: &httpkit.Responder{Log: shared.Log}}
	s.follow = s.followHub
	var err error
	s.surface, err = shared.NewSurface(s.routes(), httpkit.Options{
		OtherName: "chat_other", NameMethods: true, BadID: badSession, Unknown: noChat, NoLog: unavailable, Respond: s.respond,
	})
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	s.surface.DrainPeriod, s.surface.Below = shared.DrainPeriod, chatsPath
	if s.metrics, err = newMetrics(shared.Metrics, s); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	logic.Observe(conversation.Observer{Accepted: s.metrics.accepted, Requested: s.metrics.requested, Refused: s.metrics.refused})
	logic.ReadWithin(shared.Pages.Read)
	edge.Mount(s.surface)
	forks, err := shared.NewSurface(s.forkRoutes(), httpkit.Options{OtherName: "fork_other", Unknown: forkProblems[conversation.ReasonNoSession], NoLog: forkProblems[conversation.ReasonUnavailable], Respond: s.forks})
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	edge.Mount(forks)
	return s, nil
}

const defaultMaxBody = 8 << 20

func (s *Service) followHub(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error) {
	records, err := s.shared.Hub.Follow(ctx, root, after, through)
	if err != nil {
		return nil, err // a nil *hub.Cursor would be a recordStream that is not nil
	}
	return records, nil
}

// withTimeout returns the context of a read for one request.
func (s *Service) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.logic.RequestTimeout())
}
