package conversation

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
)

// Caller is the client for which a Service works. The zero Caller is the process itself, which has all rights.
//
// A session that the caller must not know is loaded as one that does not exist, and cannot be started. The owner is compared with each state that a decision
// is made from:
//  1. users A and B send a message to a new session with the same id, and neither of them finds it,
//  2. the command of A is stored, the one of B is refused because there is a command,
//  3. B loads the state again, which is that of the session of A.
type Caller struct {
	// By is written into the runs, answers and stops that are requested. It is the owner of a session that is started.
	By *chunk.Principal

	// Sees reports whether the caller may use a session. owner is the subject of its owner, "" if that is not known. nil: all sessions.
	Sees func(exists bool, owner string) bool

	Hides    Hidden // from the caller
	NoChat   bool   // refuse messages
	NoAnswer bool   // refuse answers to calls
	NoStop   bool   // refuse messages that stop a run, and the withdrawal of messages of others
}

// Hidden are parts of conversations that a caller is not shown. The zero Hidden hides nothing.
type Hidden struct {
	Calls, SubAgentCalls, Inputs, Results, Errors, Reasons        bool // of tools; a call that is hidden does not exist for the caller
	Contents, Metadata, Texts, Output, SubAgents, Failure, RunIDs bool // of users' messages, of answers, and of runs
}

func (h Hidden) callsOf(sub bool) bool { return h.Calls && !sub || h.SubAgentCalls && sub }

// As returns a Service that works for a caller.
func (s *Service) As(c Caller) *Service {
	bound := *s
	bound.caller = c
	return &bound
}

// sees reports whether the caller may use the session of a state that was loaded.
func (c *Caller) sees(s *State) bool { return c.Sees == nil || c.Sees(s.exists(), s.owner()) }

// refuses returns the refusal of a plan for which the caller has no right.
func (c *Caller) refuses(req *Request, state *State, plan *Plan) *Refusal {
	switch {
	case state.hidden && (req.says() || !plan.isFinal()):
		return refusal(ReasonNoSession)
	case c.NoChat && req.says(), c.NoStop && (req.Mode == dialect.ModeInterrupt || req.Mode == dialect.ModeSteer), c.NoAnswer && plan.Path == PathSubmit:
		return refusal(ReasonForbidden)
	}
	return nil
}

// owner returns the subject that requested the first run, "" if it is not known. The log does not have a run that no worker has started.
func (state *State) owner() string {
	by := state.Owner
	if !state.Known && state.Command != nil {
		by = state.Command.By
	}
	if by == nil {
		return ""
	}
	return by.Subject
}

// sign adds the caller to a command that starts or aborts a run.
func (c *Caller) sign(cmd *control.Command) {
	if cmd.Kind == control.Execute || cmd.Kind == control.Resume || cmd.Kind == control.Abort {
		cmd.By = c.By
	}
}

// shown returns a refusal without the parts of the first answer that the caller must not see.
func (c *Caller) shown(r *Refusal) *Refusal {
	if r == nil || r.First == nil {
		return r
	}
	first := *r.First
	if c.Hides.Results {
		first.Result = nil
	}
	if c.Hides.Errors {
		first.Error = ""
	}
	if c.Hides.Reasons {
		first.Reason = ""
	}
	return &Refusal{Reason: r.Reason, Text: r.Text, First: &first}
}

func (c *Caller) isAuthor(of control.Command) bool {
	return of.By != nil && c.By != nil && of.By.Subject == c.By.Subject
}
