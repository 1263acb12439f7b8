// Package conversation decides what is done with a session: it loads the state of the session, decides, requests runs, and stores answers and stop requests.
// It is the logic of the surfaces for the AI SDK and for delegation, and of package runs; it has no HTTP and no NATS.
//
// # How a request is decided
//
// Decide is one pure function from a Request and a State to a Plan: the paths of docs/protocol/chat.md#helix-6.6. A plan that changes something is one step by
// compare-and-set. When the step is done, or another request was first, the state is loaded again and the same request is decided again, until a plan is
// final:
//
//	for {
//		state := load()
//		plan := Decide(request, state)
//		switch {
//		case plan.Store != nil:   // store answers; the first one wins
//		case plan.Command != nil: // request a run; a session has one command at a time
//		default:                  // nothing, a refusal, or a stream
//		}
//	}
//
// So a request can be repeated, by a client that lost its connection, by another tab or at another edge: its steps are done already, and it gets their result.
//
// The first load for a new message is optimistic: it assumes that there is no command, because a request for a run is rejected where there is one. If
// the plan is anything else than a run, the state is loaded again.
package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/values"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Snapshots returns the folds of sessions. *projector.Reader implements it.
type Snapshots interface {
	// Snapshot returns the complete fold of a session up to the current end of its log, or chunk.ErrUnknownSession.
	Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error)

	// Head is Snapshot without the finished messages. Its cost does not depend on the length of the session.
	Head(ctx context.Context, s chunk.Session) (fold.Snapshot, error)

	// MessagePage returns the last messages of the same moment as its snapshot, at a cost that does not depend on the others.
	MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error)
}

// Queue is the work queue. *jscontrol.Queue implements it; its documentation is the contract.
type Queue interface {
	Request(ctx context.Context, c control.Command, after control.Revision) error
	Pending(ctx context.Context, s chunk.Session, agentType string) (control.Command, control.Revision, error)
}

// Inbox stores answers and stop requests. *jscontrol.Inbox implements it; its documentation is the contract.
type Inbox interface {
	Answer(ctx context.Context, a control.Answer) error
	Answers(ctx context.Context, s chunk.Session, run string) ([]control.Answer, error)
	Stop(ctx context.Context, s control.Stop) error
	Enqueue(ctx context.Context, m control.Queued) error
	Queued(ctx context.Context, s chunk.Session) ([]control.Queued, error)
	SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error
}

// Reaper ends runs that no worker ends. *workers.Reaper implements it; its documentation is the contract.
type Reaper interface {
	Withdraw(ctx context.Context, c control.Command) error
	IsAbandoned(ctx context.Context, s chunk.Session) (bool, error)
	Abandon(ctx context.Context, s chunk.Session, stopped bool) (bool, error)
}

// Ports are the dependencies of a Service. All are required but Values and Forks; without Values a message with a file that is too large for a record is refused, and
// without Forks each fork.
type Ports struct {
	Snapshots Snapshots
	Queue     Queue
	Inbox     Inbox
	Reaper    Reaper
	Values    Values
	Forks     Forks
}

// Observer is notified of what a Service does.
type Observer struct {
	Accepted  func()         // an answer of a user was stored
	Requested func(error)    // a command was requested, with the result
	Refused   func(*Refusal) // a request or an answer was refused
}

// Config configures a Service. AgentTypes is required.
type Config struct {
	// AgentTypes are the agent types that may be started. The first one is the default for a new session.
	AgentTypes []string

	// RequestTimeout bounds one request. It is longer than the time in which the queue and the inbox resolve an unknown outcome. Defaults to 15 seconds.
	RequestTimeout time.Duration

	// Storage, if not nil, returns why nothing can be stored for a session at present, a chunk.ErrNoStorage. It is called before a command or an answer is
	// stored: without it a command could be accepted, and its run could not write.
	Storage func(chunk.Session) error

	// MaxSessionBytes is the chunk.Record.SessionBytes from which a session gets no new message. A negative number is unlimited.
	MaxSessionBytes int64

	// Audit, if not nil, records messages, answers and stops, of the caller with which the Service works.
	Audit *audit.Log

	// Log receives errors of the ports, never texts of users. Defaults to none.
	Log *slog.Logger
}

// Service is the logic of conversations. It is safe for concurrent use, and starts no goroutine that outlives a request.
type Service struct {
	ports   Ports
	cfg     Config
	observe Observer
	caller  Caller
	within  func(ctx context.Context, read func(context.Context) error) error // see ReadWithin; nil: without a limit
}

// New returns a Service.
func New(p Ports, cfg Config) (*Service, error) {
	if p.Snapshots == nil || p.Queue == nil || p.Inbox == nil || p.Reaper == nil {
		return nil, errors.New("conversation: Snapshots, Queue, Inbox or Reaper is nil, want all of them")
	}
	if len(cfg.AgentTypes) == 0 {
		return nil, errors.New("conversation: AgentTypes is empty, want one at least")
	}
	for _, name := range cfg.AgentTypes {
		if err := subjects.CheckToken("AgentTypes", name); err != nil {
			return nil, fmt.Errorf("conversation: %w", err)
		}
	}
	if cfg.RequestTimeout < 0 {
		return nil, fmt.Errorf("conversation: RequestTimeout is %s, want more than 0", cfg.RequestTimeout)
	}
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, 15*time.Second)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.AgentTypes = slices.Clone(cfg.AgentTypes)
	return &Service{ports: p, cfg: cfg, observe: Observer{Accepted: func() {}, Requested: func(error) {}, Refused: func(*Refusal) {}}}, nil
}

// Observe sets the observer, which has all functions. It must be called before the first request.
func (s *Service) Observe(o Observer) { s.observe = o }

// RequestTimeout returns Config.RequestTimeout, for surfaces that wait for the log.
func (s *Service) RequestTimeout() time.Duration { return s.cfg.RequestTimeout }

// Serve decides a request and carries out its plans until one is final. The State is the one that the plan was made from. A disconnect of the client does not
// cancel the request, so that a client that lost the connection gets the same state as one that reloads.
func (s *Service) Serve(ctx context.Context, req *Request) (Plan, State) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	plan, state := refuse(s.CheckAgent(req.AgentType)), State{}
	if plan.Refusal == nil {
		// This check precedes all effects of the request: calls must not be abandoned for a message that is then rejected.
		req.Messages, plan.Refusal = s.checkTurn(ctx, req.Session, req.Messages)
	}
	switch {
	case plan.Refusal != nil:
	case req.LastEvent != nil && len(req.Messages) == 0 && req.Answered == nil:
		plan = req.readOn()
	default:
		plan, state = s.decide(ctx, req)
	}
	if plan.Refusal != nil {
		s.observe.Refused(plan.Refusal)
		plan.Refusal = s.caller.shown(plan.Refusal)
	}
	return plan, state
}

// LoadPage loads the state and the complete fold of a session, of which a page shows all messages, and returns the error of a port unchanged. The fold is that of
// a session without records if the caller must not know it. agentType is "" or that of the session.
func (s *Service) LoadPage(ctx context.Context, id chunk.Session, agentType string) (State, fold.Snapshot, error) {
	return s.loadState(ctx, id, s.typesOf(agentType), detail{messages: allMessages, branches: true})
}

// Snapshots returns the port, for pages that show the sub-agents of a session that was loaded.
func (s *Service) Snapshots() Snapshots { return s.ports.Snapshots }

// Load loads the state of a session without its messages, and returns the error of a port unchanged.
func (s *Service) Load(ctx context.Context, id chunk.Session, agentType string) (State, error) {
	state, _, err := s.loadState(ctx, id, s.typesOf(agentType), withBranches)
	return state, err
}

// checkTurn returns the refusal of messages that a run could not write into the log, nil if it can. It omits messages before the last one that no run could
// write: each was refused when it was the last one, and a client that keeps it would never be able to send another.
func (s *Service) checkTurn(ctx context.Context, id chunk.Session, turn []chunk.InputMessage) ([]chunk.InputMessage, *Refusal) {
	check := func(in []chunk.InputMessage) error {
		if s.ports.Values != nil && hasLargeFiles(in) {
			in, _ = withoutFiles(id, "run", in, func(values.Key, string, []byte) error { return nil })
		}
		return checkInput(&control.Command{Session: id, AgentType: s.cfg.AgentTypes[0], RunID: "run", Input: in})
	}
	err := check(turn)
	if err == nil {
		return turn, nil
	}
	var kept []chunk.InputMessage
	for i := range turn {
		if i == len(turn)-1 || check(turn[i:i+1]) == nil {
			kept = append(kept, turn[i])
		}
	}
	if len(kept) < len(turn) {
		err = check(kept)
	}
	if err != nil {
		return nil, s.Failed(ctx, id, "input", err)
	}
	s.cfg.Log.DebugContext(ctx, "earlier rejected messages omitted", "session", id.String(), "messages", len(turn)-len(kept))
	return kept, nil
}

// CheckAgent returns the refusal of an agent type that is not in Config.AgentTypes, nil for one that is and for "".
func (s *Service) CheckAgent(agentType string) *Refusal {
	if agentType != "" && !slices.Contains(s.cfg.AgentTypes, agentType) {
		return refusal(ReasonUnknownAgent)
	}
	return nil
}

// typesOf returns the agent type under which the queue may have a session.
func (s *Service) typesOf(agentType string) []string {
	if agentType == "" {
		return s.cfg.AgentTypes[:1]
	}
	return []string{agentType}
}

// withTimeout returns the context of one request, which does not end with its client.
func (s *Service) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.cfg.RequestTimeout)
}
