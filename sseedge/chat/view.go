package chat

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// View is what Decide knows of a chat: the fold of its log, the command that
// waits or is at work, and what people have answered. It is of one moment, or
// nearly: what changes between its parts is found out when the plan is carried
// out, because every step of it is a compare-and-set.
type View struct {
	Now     time.Time
	Session chunk.Session

	AgentType string // of the session, or for it when it is new

	// Known is false for a session of which the log has nothing.
	Known    bool
	Status   fold.Status
	Position chunk.Position // the last record
	Reach    chunk.Seq      // the last record of the session, or of a sub-agent that is at work for it
	Count    int            // messages, as fold.Snapshot.MessageCount has it
	Run      fold.Run       // the latest one
	Past     []fold.Run     // those before it
	Inputs   []fold.Input   // messages of people, oldest first

	// TurnStart is the record that opened the turn, Answer the id of its answer,
	// TurnRun the run that it began with.
	TurnStart chunk.Position
	Answer    string
	TurnRun   fold.Run

	// Earlier are calls of messages before the answer that had no outcome when the
	// turn opened.
	Earlier []string

	// Unsettled are calls that have no outcome now: what Earlier will be of the next
	// turn.
	Unsettled []string

	Branches []Branch        // runs of the tree that are paused for answers, the root's own first
	Calls    map[string]Call // all calls that the log knows, by the id that a client has
	Agents   map[string]bool // sessions of all sub-agents that were called; theirs are in Calls while they are at work

	// Command waits or is at work, nil when none is. Revision is its place.
	Command  *commands.Command
	Revision commands.Revision

	replaced func(index int) bool
}

// Branch is a run that is paused until its calls are answered: the session's own
// or that of a sub-agent.
type Branch struct {
	Session   chunk.Session
	AgentType string
	RunID     string
	Waits     []Wait

	// Resumed: somebody has asked for the run to go on. After is the place of the
	// command that is there, when its run is over or paused.
	Resumed bool
	After   commands.Revision
}

// Wait is a call that a paused run waits for.
type Wait struct {
	Session  chunk.Session
	RunID    string // that asked
	CallID   string // in its own session
	ClientID string // as a client knows it
	ToolName string
	Kind     inbox.Kind
	Approval string // its id, of an inbox.Approval
	Deadline int64  // in milliseconds since 1970 UTC, 0 for none

	// Answer is the one that counts, nil while there is none.
	Answer *inbox.Answer
}

// expired reports whether nobody has answered in time.
func (w *Wait) expired(now time.Time) bool {
	return w.Answer == nil && w.Deadline > 0 && w.Deadline < now.UnixMilli()
}

// Call is a call in the messages of the log.
type Call struct {
	State      string // as a part has it
	ApprovalID string
	Approved   *bool
	Reason     string
	Output     chunk.Value
	Error      string
}

// answered reports whether nobody needs to answer any more.
func (c *Call) answered() bool {
	switch c.State {
	case "output-available", "output-error", "output-denied", "approval-responded":
		return true
	}
	return false
}

// first is the answer that counts, as far as the messages have it.
func (c *Call) first(clientID string) inbox.Answer {
	a := inbox.Answer{Kind: inbox.ClientResult, CallID: clientID, ApprovalID: c.ApprovalID}
	if c.ApprovalID != "" {
		a.Kind = inbox.Approval
	}
	switch {
	case c.Approved != nil:
		a.Approved, a.Reason = *c.Approved, c.Reason
	case c.Error != "":
		a.Error = c.Error
	default:
		a.Result = c.Output
	}
	return a
}

// setSnapshot fills in what the fold says.
func (v *View) setSnapshot(snap fold.Snapshot) {
	v.Known = true
	v.Status, v.Position, v.Count = snap.Status, snap.Position, snap.MessageCount()
	v.Reach = snap.Position.Seq
	v.Run, v.Past = snap.Run, snap.Past
	v.TurnStart, v.Answer, v.TurnRun = snap.TurnStart(), fold.MessageID(snap.TurnMessages()), snap.TurnRun()
	v.Earlier, v.replaced = snap.TurnCalls(), snap.IsReplaced
	for _, c := range snap.Unsettled() {
		v.Unsettled = append(v.Unsettled, c.ID)
	}
}

// setMessages fills in what is in the messages, which are many in a long chat, and
// which only somebody who says something makes us look into.
func (v *View) setMessages(snap fold.Snapshot) {
	v.Inputs, v.Calls, v.Agents = snap.Inputs(), make(map[string]Call), make(map[string]bool)
	addCalls(v.Calls, snap, "")
	for _, m := range snap.Transcript(0) {
		for _, child := range m.Children {
			v.Agents[child.Session] = true
		}
	}
}

// isReplaced reports whether an edit or a new answer took the place of a message.
func (v *View) isReplaced(index int) bool { return v.replaced != nil && v.replaced(index) }

// addCalls reads the calls from the messages; those of a sub-agent get its
// session in front.
func addCalls(calls map[string]Call, snap fold.Snapshot, agent string) {
	for _, m := range snap.Transcript(0) {
		if m.Role != fold.Assistant {
			continue
		}
		for _, raw := range m.Parts {
			var p part
			if err := json.Unmarshal(raw, &p, reading); err != nil || p.Type != "dynamic-tool" {
				continue // a part of another kind; ours can be read
			}
			c := Call{State: p.State, Output: chunk.Value(p.Output)}
			if p.ErrorText != nil {
				c.Error = *p.ErrorText
			}
			if p.Approval != nil {
				c.ApprovalID, c.Approved = p.Approval.ID, p.Approval.Approved
				if p.Approval.Reason != nil {
					c.Reason = *p.Approval.Reason
				}
			}
			calls[clientCallID(agent, p.ToolCallID)] = c
		}
	}
}

// clientCallID is the id of a call as a chat shows it, codec/aisdk.
func clientCallID(agent, call string) string {
	if agent == "" {
		return call
	}
	return agent + "/" + call
}

// begun reports whether the log has the run of the command.
func (v *View) begun() bool {
	id := v.Command.RunID
	return v.Run.ID == id || slices.ContainsFunc(v.Past, func(r fold.Run) bool { return r.ID == id })
}

// waiting is the command whose run is yet to begin, nil when there is none.
func (v *View) waiting() *commands.Command {
	switch c := v.Command; {
	case c == nil, c.Kind == commands.Expire:
		return nil
	case c.Kind == commands.Abort: // which is done when its run is over
		if !v.suspended() || v.Run.ID != c.RunID {
			return nil
		}
	case v.begun():
		return nil
	}
	return v.Command
}

// asked makes it the view behind a command that was stored.
func (v *View) asked(c *commands.Command) {
	v.Command, v.Revision = c, 0
	v.resumed(c.Session)
}

// resumed makes it the view behind a command of a branch that somebody stored.
func (v *View) resumed(s chunk.Session) {
	for i := range v.Branches {
		if b := &v.Branches[i]; b.Session == s {
			b.Resumed = true
		}
	}
}

// after is the revision that a new command is requested behind: that of a command
// whose run is over or paused, because its acknowledgement is late, else none.
func (v *View) after() commands.Revision {
	if v.Command != nil && v.waiting() == nil && v.Status != fold.Active {
		return v.Revision
	}
	return 0
}

// working reports whether a run is at work or about to begin.
func (v *View) working() bool { return v.Status == fold.Active || v.waiting() != nil }

// suspended reports whether the latest run waits for answers.
func (v *View) suspended() bool {
	return v.Status == fold.Paused && v.Run.Status == fold.RunSuspended
}

// open are the waits that nobody has answered.
func (v *View) open() []Wait {
	var open []Wait
	for _, b := range v.Branches {
		open = append(open, b.open()...)
	}
	return open
}

func (b Branch) open() []Wait {
	return slices.DeleteFunc(slices.Clone(b.Waits), func(w Wait) bool { return w.Answer != nil })
}

// ripe is the first branch that can go on, nil when there is none: everything it
// waits for was answered, and nobody has asked for it yet. Whoever stored the last
// answer may have died before he could.
func (v *View) ripe() *Branch {
	for i := range v.Branches {
		if b := &v.Branches[i]; !b.Resumed && len(b.Waits) > 0 && len(b.open()) == 0 && !b.abandoned(v.Now) {
			return b
		}
	}
	return nil
}

// abandoned reports whether somebody has just said something else instead of
// answering: he is about to ask for a run. Were the branch to go on,
//  1. a person says something else, and the calls are abandoned,
//  2. another tab looks at the chat, and the old run goes on,
//  3. the person's message is refused, because a run is at work.
//
// After a while he must have died, and the branch goes on without him.
func (b Branch) abandoned(now time.Time) bool {
	return slices.ContainsFunc(b.Waits, func(w Wait) bool {
		return w.Answer != nil && w.Answer.ErrorCode == codeAbandoned && now.Sub(w.Answer.At).Abs() < abandonTime
	})
}

// abandonTime is how long somebody has for the step from the calls that he
// abandons to the run that he asks for. The clocks of edges may differ by as much.
const abandonTime = 15 * time.Second

// delegated reports whether sub-agents are at work while the run is paused, and
// nobody else is waited for: it goes on by itself.
func (v *View) delegated() bool {
	if !v.suspended() {
		return false
	}
	open := v.open()
	return len(open) > 0 && !slices.ContainsFunc(open, func(w Wait) bool { return w.Kind != inbox.SubagentResult })
}

// delegates reports whether the run is paused, and waits for sub-agents at least.
func (v *View) delegates() bool {
	return v.suspended() && slices.ContainsFunc(v.open(), func(w Wait) bool { return w.Kind == inbox.SubagentResult })
}

// asksElsewhere reports whether a sub-agent waits for a person. Its question is not
// in the messages of the session: a page gets it from the stream alone.
func (v *View) asksElsewhere() bool {
	return v.suspended() && !v.delegated() && slices.ContainsFunc(v.open(), func(w Wait) bool {
		return w.Session != v.Session && w.Kind != inbox.SubagentResult
	})
}

// flight reports whether an answer is on its way.
func (v *View) flight() bool { return v.working() || v.delegated() }

// wait is the call that a client means, nil when nothing waits for it.
func (v *View) wait(clientID string) *Wait {
	for _, b := range v.Branches {
		for i := range b.Waits {
			if b.Waits[i].ClientID == clientID {
				return &b.Waits[i]
			}
		}
	}
	return nil
}
