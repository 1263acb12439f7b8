package chat

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
)

// maxRounds is how many steps a request may take, races that it loses included.
const maxRounds = 16

// settle decides a request and carries the plans out, until one says what to
// answer. The View is the one that plan was made from. Errors of what lies below
// are in the log, and a refusal here.
func (s *Service) settle(ctx context.Context, req *Request) (Plan, View) {
	for round := range maxRounds {
		if round > 3 && !pause(ctx, time.Duration(round)*5*time.Millisecond) {
			break
		}
		glance := round == 0 && req.says()
		v, err := s.view(ctx, req, glance)
		if err != nil {
			return refuse(s.failed(ctx, req.Session, "look", err)), v
		}
		plan := Decide(*req, v)
		if glance && !plan.executes() {
			continue
		}
		if plan.Store == nil && plan.Command == nil {
			return plan, v
		}
		if plan.asksFor(v.Session) {
			if p := s.resumeAgents(ctx, req, v, plan); p != nil {
				return refuse(p), v
			}
			continue
		}
		ahead := s.followAhead(ctx, plan, v)
		stored, p := s.carryOut(ctx, req, plan)
		if p == nil && stored {
			// The command stands where we put it: nothing has begun behind the view but
			// what it asks for. A stream makes sure of that, see stream.checkID.
			v.asked(plan.Command)
			if next := Decide(*req, v); next.Stream != nil {
				next.Stream.ahead = ahead
				return next, v
			}
		}
		ahead.drop()
		if p != nil {
			return refuse(p), v
		}
	}
	s.cfg.Log.WarnContext(ctx, "a request found no end", "session", req.Session.String())
	return refuse(contended), View{}
}

// view is how the chat of a request stands, at a glance or well enough to say
// something about it.
func (s *Service) view(ctx context.Context, req *Request, glance bool) (View, error) {
	if glance {
		return s.glance(ctx, req.Session, req.AgentType)
	}
	v, _, err := s.look(ctx, req.Session, req.AgentType, req.Post)
	return v, err
}

// says reports whether a request may ask for a run of its own.
func (r Request) says() bool { return len(r.Turn) > 0 || r.Trigger == Regenerate }

// executes reports whether a plan asks for the run of a turn.
func (p *Plan) executes() bool { return p.Command != nil && p.Command.Kind == commands.Execute }

// asksFor reports whether a plan is a command, and of a sub-agent of the session.
func (p *Plan) asksFor(root chunk.Session) bool {
	return p.Command != nil && p.Command.Session != root
}

// resumeAgents makes all sub-agents go on that can, without a look at the whole tree
// for each: one POST may answer the questions of more of them than it may take
// rounds. The next look finds those that it did not get.
func (s *Service) resumeAgents(ctx context.Context, req *Request, v View, plan Plan) *Problem {
	for ; plan.asksFor(v.Session); plan = Decide(*req, v) {
		if _, p := s.carryOut(ctx, req, plan); p != nil {
			return p
		}
		v.resumed(plan.Command.Session)
	}
	return nil
}

// carryOut does one step, and reports whether a command of the chat itself was
// stored. That somebody was faster is no failure: the next look finds what he did.
func (s *Service) carryOut(ctx context.Context, req *Request, plan Plan) (stored bool, p *Problem) {
	for _, a := range plan.Store {
		err := s.answer(ctx, a)
		switch {
		case errors.Is(err, inbox.ErrAnswered):
		case err != nil:
			return false, s.failed(ctx, a.Session, "answer", err)
		case plan.Path == PathSubmit:
			s.metrics.accepted()
		}
	}
	c := plan.Command
	if c == nil {
		req.did = plan.Path
		return false, nil
	}
	if c.Kind == commands.Execute {
		if p := s.knows(c.AgentType); p != nil {
			return false, p
		}
		if err := checkInput(c); err != nil {
			return false, s.failed(ctx, req.Session, "input", err)
		}
	}
	err := s.request(ctx, *c, plan.After)
	switch {
	case errors.Is(err, commands.ErrBusy):
		return false, nil
	case err != nil:
		return false, s.failed(ctx, req.Session, "request", err)
	case c.Kind == commands.Execute:
		req.Asked = c.RunID
	}
	req.did = plan.Path
	return c.Session == req.Session, nil
}

// request puts a command on the queue.
func (s *Service) request(ctx context.Context, c commands.Command, after commands.Revision) error {
	err := s.cfg.Commands.Request(ctx, c, after)
	s.metrics.requested(err)
	return err
}

// answer stores an answer, if the log can hold it.
func (s *Service) answer(ctx context.Context, a inbox.Answer) error {
	if err := checkAnswer(&a); err != nil {
		return err
	}
	return s.cfg.Inbox.Answer(ctx, a)
}

// failed makes a refusal of an error and leaves the rest to the log.
func (s *Service) failed(ctx context.Context, session chunk.Session, what string, err error) *Problem {
	switch {
	case errors.Is(err, chunk.ErrTooLarge):
		return inputTooLarge
	case errors.Is(err, chunk.ErrInvalid):
		s.cfg.Log.DebugContext(ctx, "a request was refused below", "what", what, "session", session.String(), "err", err)
		return invalid("what was sent cannot be stored: it is nested too deeply, or a part of it is too long")
	case errors.Is(err, chunk.ErrTruncated):
		return lost
	}
	if errors.Is(err, context.Canceled) { // the client has gone
		s.cfg.Log.DebugContext(ctx, "a chat was not served", "what", what, "session", session.String(), "err", err)
		return unavailable
	}
	s.cfg.Log.WarnContext(ctx, "a chat could not be served", "what", what, "session", session.String(), "err", err)
	return unavailable
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
