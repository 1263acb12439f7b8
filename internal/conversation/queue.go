package conversation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
)

// waits reports whether a new message waits. One that interrupts answers a question that the run asks the user: the calls are abandoned, as without a mode.
func (state *State) waits(mode dialect.Mode) bool {
	return state.working() || state.suspended() && (mode != dialect.ModeInterrupt || state.awaitsSubAgents())
}

// decideQueued decides a new message in a session in which it or another one waits.
func decideQueued(req Request, state *State, requested intent) Plan {
	own := state.queuedRun(requested.command.RunID)
	switch {
	case own != nil && !own.Open():
		return refuseWith(ReasonChanged) // it was withdrawn, or its command was removed
	case !state.waits(req.Mode):
		if next := NextQueued(state.Queue); next != nil && next != own {
			return Plan{Path: PathStartQueued, Queued: next, After: state.after()}
		}
		if own == nil {
			req.Mode = dialect.ModeReject
			return decideTurn(req, state, requested)
		}
		return Plan{Path: PathStartQueued, Queued: own, After: state.after()}
	case own != nil:
		return Plan{Path: PathQueued, Stream: &Stream{Run: own.Command.RunID, Queued: true}}
	}
	c := requested.command
	c.Kind, c.Mode, c.Session, c.AgentType, c.Params = control.Execute, control.ModeQueued, state.Session, state.AgentType, req.Params
	return Plan{Path: PathQueue, Queued: &control.Queued{Command: c, First: req.Mode == dialect.ModeInterrupt, Steers: req.Mode == dialect.ModeSteer, State: control.QueuedWaiting}}
}

// NextQueued returns the message that starts next, nil if none waits: one that is being started, or one that interrupts, or else the oldest.
func NextQueued(all []control.Queued) *control.Queued {
	rank := func(q control.Queued) int {
		switch {
		case q.State == control.QueuedTaken:
			return 0
		case q.First:
			return 1
		}
		return 2
	}
	var next *control.Queued
	for i, q := range all {
		if q.Open() && (next == nil || rank(q) < rank(*next)) {
			next = &all[i]
		}
	}
	return next
}

func (state *State) queuedRun(run string) *control.Queued {
	at := slices.IndexFunc(state.Queue, func(q control.Queued) bool { return q.Command.RunID == run })
	if at < 0 {
		return nil
	}
	return &state.Queue[at]
}

// isQueued reports whether a message waits or has waited: the next one does not take it along.
func (state *State) isQueued(message string) bool {
	return message != "" && state.queuedRun(control.ExecuteRunID(state.Session, message)) != nil
}

// StartQueued requests the run of a message that waits. request may be called again for the same command, by a process that takes over from one that has
// crashed; the worker finds the run in the log then. It does nothing if the message was withdrawn or deleted.
func StartQueued(ctx context.Context, inbox interface {
	SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error
}, q *control.Queued, request func(control.Command) error,
) error {
	c := q.Command
	err := inbox.SetQueued(ctx, c.Session, c.RunID, control.QueuedTaken)
	if err == nil {
		err = request(c)
	}
	if err == nil {
		err = inbox.SetQueued(ctx, c.Session, c.RunID, control.QueuedStarted)
	}
	if errors.Is(err, control.ErrNotQueued) {
		return nil
	}
	return err
}

// carryOutQueued stores a message that waits, or starts one.
func (s *Service) carryOutQueued(ctx context.Context, req *Request, plan *Plan) *Refusal {
	q := plan.Queued
	req.LastPath = plan.Path
	if plan.Path == PathStartQueued {
		err := StartQueued(ctx, s.ports.Inbox, q, func(c control.Command) error {
			err := s.ports.Queue.Request(ctx, c, plan.After)
			s.observe.Requested(err)
			return err
		})
		if errors.Is(err, control.ErrBusy) {
			return nil // the next load shows the other command; the message is started after its run
		}
		if err != nil {
			return s.Failed(ctx, req.Session, "start a message that waits", err)
		}
		return nil
	}
	if p := s.CheckAgent(q.Command.AgentType); p != nil {
		return p
	}
	err := s.storeFiles(ctx, &q.Command)
	if err == nil {
		err = checkInput(&q.Command)
	}
	if err != nil {
		return s.Failed(ctx, req.Session, "input", err)
	}
	s.caller.sign(&q.Command)
	q.Command.Issued = time.Now()
	if err = s.storage(req.Session); err == nil {
		err = s.record(ctx, audit.Message, req.Session, q.Command.RunID, "", func() error { return s.ports.Inbox.Enqueue(ctx, *q) })
	}
	if errors.Is(err, control.ErrQueueFull) {
		return refusal(ReasonQueueFull)
	}
	if err != nil {
		return s.Failed(ctx, req.Session, "queue a message", err)
	}
	return nil
}

// Queue returns the messages of a session that wait, in the order in which they start. It is for a caller that may use the session.
func (s *Service) Queue(ctx context.Context, id chunk.Session) ([]control.Queued, error) {
	all, err := s.ports.Inbox.Queued(ctx, id)
	var list []control.Queued
	for next := NextQueued(all); err == nil && next != nil; next = NextQueued(all) {
		list = append(list, *next)
		next.State = control.QueuedStarted
	}
	return list, err
}

// ContinueQueue starts the next message that waits if no run is in progress, and reports whether the message of a run waits or is being started. A worker does it
// at the end of a run; the run of another writer has none.
func (s *Service) ContinueQueue(ctx context.Context, id chunk.Session, agentType, run string) (waits bool, err error) {
	state, _, err := s.loadState(ctx, id, s.typesOf(agentType), withBranches)
	if err != nil || state.hidden {
		return false, err
	}
	if state.Queue, err = s.ports.Inbox.Queued(ctx, id); err != nil {
		return false, err
	}
	if next := NextQueued(state.Queue); next != nil && !state.waits(dialect.ModeQueue) {
		req := Request{Session: id}
		if r := s.carryOutQueued(ctx, &req, &Plan{Path: PathStartQueued, Queued: next, After: state.after()}); r != nil {
			return true, nil // it is logged, and tried again
		}
	}
	own := state.queuedRun(run)
	return own != nil && own.State != control.QueuedWithdrawn || state.HasRun(run), nil
}

// WithdrawQueued withdraws a message that waits: of the caller, or of anyone if the caller may stop runs.
func (s *Service) WithdrawQueued(ctx context.Context, id chunk.Session, agentType, message string) *Refusal {
	if r := s.CheckAgent(agentType); r != nil {
		return r
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	state, _, err := s.loadState(ctx, id, s.typesOf(agentType), runOnly)
	if err == nil && state.exists() { // a hidden session does not, and is refused in the same time as an unknown one
		state.Queue, err = s.ports.Inbox.Queued(ctx, id)
	}
	if err != nil {
		return s.Failed(ctx, id, "withdraw", err)
	}
	run := control.ExecuteRunID(id, message)
	q := state.queuedRun(run)
	switch {
	case !state.exists():
		return refusal(ReasonNoSession)
	case q == nil || q.State == control.QueuedWithdrawn:
		return refusal(ReasonNotQueued)
	case s.caller.NoStop && !s.caller.isAuthor(q.Command):
		return refusal(ReasonForbidden)
	}
	err = s.record(ctx, audit.Withdraw, id, run, "", func() error { return s.ports.Inbox.SetQueued(ctx, id, run, control.QueuedWithdrawn) })
	if errors.Is(err, control.ErrNotQueued) {
		return refusal(ReasonNotQueued)
	}
	if err != nil {
		return s.Failed(ctx, id, "withdraw", err)
	}
	s.clearFiles(ctx, &q.Command)
	return nil
}

// allow refuses what the caller may not, and otherwise stops the run in whose place a message is to be answered. The run is the one of the state: after that has ended the run of the message may have begun.
func (s *Service) allow(ctx context.Context, req *Request, state *State, plan *Plan) *Refusal {
	if p := s.caller.refuses(req, state, plan); p != nil || plan.Path != PathQueued || req.Mode != dialect.ModeInterrupt {
		return p
	}
	var err error
	switch stopped := state.latestRun(); {
	case stopped == plan.Stream.Run:
	case state.Waiting() == nil && state.awaitsSubAgents():
		abort := control.Command{Kind: control.Abort, Session: state.Session, AgentType: state.AgentType, RunID: stopped}
		err = s.record(ctx, audit.Abort, state.Session, stopped, "", func() error { return s.request(ctx, abort, state.after()) })
		if errors.Is(err, control.ErrBusy) {
			return refusal(ReasonContended) // its resume has just been requested; the repetition stops that one
		}
	default:
		if err = s.storeStop(ctx, control.Stop{Session: state.Session, RunID: stopped, Kind: control.StopInterrupt}); err == nil {
			return s.endWithoutWorker(ctx, state)
		}
	}
	if err != nil {
		return s.Failed(ctx, state.Session, "stop", err)
	}
	return nil
}
