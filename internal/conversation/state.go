package conversation

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// State is the input of Decide: the fold of the log, the pending command, and the answers. The parts are loaded one after the other: a change between them is
// detected when the plan is carried out, because each step is a compare-and-set.
type State struct {
	Now     time.Time
	Session chunk.Session

	AgentType string // of the session, or of the request if the session is new

	// Known is false for a session without records.
	Known    bool
	Owner    *chunk.Principal // see fold.Snapshot
	Status   fold.Status
	Position chunk.Position // the last record
	MaxSeq   chunk.Seq      // the last record of the session, or of a running sub-agent
	Count    int            // number of messages, as fold.Snapshot.MessageCount

	SessionBytes int64 // see chunk.Record

	Run    fold.Run     // the latest one
	Past   []fold.Run   // those before it
	Inputs []fold.Input // messages of users, oldest first

	// TurnStart is the record that started the turn, Answer the id of its answer, TurnRun its first run.
	TurnStart chunk.Position
	Answer    string
	TurnRun   fold.Run

	// EarlierOpenCalls are calls of earlier messages that had no outcome when the turn started.
	EarlierOpenCalls []string

	// OpenCalls are calls without an outcome now: the EarlierOpenCalls of the next turn.
	OpenCalls []string

	Branches         []SuspendedRun  // suspended runs of the tree that wait for answers, the root's own first
	Calls            map[string]Call // all calls in the log, by the client's id
	SubAgentSessions map[string]bool // sessions of all sub-agents; their calls are in Calls while they run
	RunningChildren  []fold.Child    // see fold.Snapshot.RunningChildren

	// Command is the pending or running command, nil if there is none. Revision is its position on the queue.
	Command  *control.Command
	Revision control.Revision

	// Queue has the messages that wait or have waited, see control.Queued. It is loaded only for requests with a Mode.
	Queue []control.Queued

	// Abandoned reports that the latest run is active and has no worker. It is loaded only for requests that send something.
	Abandoned bool

	hides Hidden // see Caller

	hidden   bool // the caller must not know the session: the state is that of one that does not exist
	replaced func(index int) bool
	shown    map[string]string // the client's id of the latest call with an id in the log, which the session of its sub-agent precedes
}

// SuspendedRun is a run that waits for answers to its calls: the session's own or that of a sub-agent.
type SuspendedRun struct {
	Session      chunk.Session
	AgentType    string
	RunID        string
	PendingCalls []PendingCall

	// Resumed reports that a resume of the run was requested. CommandRevision is the revision of the session's command if the run of that command has ended or
	// is paused.
	Resumed         bool
	CommandRevision control.Revision
}

// Call is a call in the messages of the log.
type Call struct {
	State      fold.CallState
	ApprovalID string
	Approved   *bool
	Reason     string
	Output     chunk.Value
	Error      string
}

// answered reports whether the call needs no further answer.
func (c *Call) answered() bool {
	switch c.State {
	case fold.CallDone, fold.CallFailed, fold.CallDenied, fold.CallApproved:
		return true
	}
	return false
}

// first returns the accepted answer, as far as the messages have it.
func (c *Call) first(clientID string) control.Answer {
	a := control.Answer{Kind: control.ClientResult, CallID: clientID, ApprovalID: c.ApprovalID}
	if c.ApprovalID != "" {
		a.Kind = control.Approval
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

// setSnapshot sets the fields that come from the fold.
func (state *State) setSnapshot(snap fold.Snapshot) {
	state.Known, state.Owner = true, snap.Owner
	state.Status, state.Position, state.Count, state.SessionBytes = snap.Status, snap.Position, snap.MessageCount(), snap.SessionBytes
	state.MaxSeq = snap.Position.Seq
	state.Run, state.Past = snap.Run, snap.PastRuns
	state.TurnStart, state.Answer, state.TurnRun = snap.TurnStart(), fold.MessageID(snap.TurnMessages()), snap.TurnRun()
	state.EarlierOpenCalls, state.replaced = snap.TurnCalls(), snap.IsReplaced
	state.RunningChildren = snap.RunningChildren()
	for _, c := range snap.OpenCalls() {
		state.OpenCalls = append(state.OpenCalls, c.ID)
	}
}

// setMessages sets the fields that come from the messages. A hidden call, and the id of one, is like one that does not exist.
func (state *State) setMessages(list []fold.Message) {
	state.Calls, state.SubAgentSessions, state.shown = make(map[string]Call), make(map[string]bool), make(map[string]string)
	state.addCalls(list, "")
	if state.hides.callsOf(true) {
		return
	}
	for _, m := range list {
		for _, child := range m.Children {
			state.SubAgentSessions[child.Session] = true
		}
	}
}

// addCalls adds the calls in the messages that the caller may know; those of a sub-agent get its session in front.
func (state *State) addCalls(list []fold.Message, agent string) {
	if state.hides.callsOf(agent != "") {
		return
	}
	answer, used := -1, make(map[string]bool)
	for _, m := range list {
		if m.Shown != answer {
			answer = m.Shown
			clear(used)
		}
		for _, p := range m.Calls() {
			c := Call{State: p.State, Output: p.Output}
			if p.State == fold.CallFailed {
				c.Error = validText(p.Error)
			}
			if p.Approval != nil {
				c.ApprovalID, c.Approved = validText(p.Approval.ID), p.Approval.Approved
				if p.Approval.Reason != nil {
					c.Reason = validText(*p.Approval.Reason)
				}
			}
			id := dialect.CallID(agent, validText(p.ID))
			state.shown[id] = dialect.ShownCallID(used, id)
			state.Calls[state.shown[id]] = c
		}
	}
}

// validText returns a text of a record as a client has it in its requests: with U+FFFD for each half of a surrogate pair, which has three bytes.
func validText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if rawjson.SurrogateAt(text) != 0 {
			size = 3
		}
		b.WriteRune(r)
		text = text[size:]
	}
	return b.String()
}

func (state *State) isSubAgent(session string) bool { return state.SubAgentSessions[session] }

// Begun reports whether the log has the run of the command. A command that this build cannot read has no run id, and counts as not begun.
func (state *State) Begun() bool {
	id := state.Command.RunID
	return id != "" && state.Run.ID == id || slices.ContainsFunc(state.Past, func(r fold.Run) bool { return r.ID == id })
}

// Waiting returns the command whose run has not started, nil if there is none.
func (state *State) Waiting() *control.Command {
	switch c := state.Command; {
	case c == nil, c.Kind == control.Expire:
		return nil
	case c.Kind == control.Abort: // it is done when its run has ended
		if !state.suspended() || state.Run.ID != c.RunID {
			return nil
		}
	case state.Begun():
		return nil
	}
	return state.Command
}

// applyCommand sets the state after a command was stored.
func (state *State) applyCommand(c *control.Command) {
	state.Command, state.Revision = c, 0
	state.resumed(c.Session)
}

// resumed sets the state after a command of a branch was stored.
func (state *State) resumed(s chunk.Session) {
	for i := range state.Branches {
		if b := &state.Branches[i]; b.Session == s {
			b.Resumed = true
		}
	}
}

// after returns the expected revision of a new command: that of a command whose run has ended or is paused, because its acknowledgement is late, else none.
func (state *State) after() control.Revision {
	if state.Command != nil && state.Waiting() == nil && state.Status != fold.Active {
		return state.Revision
	}
	return 0
}

// ownerless reports whether the latest run is active without a command: it has no worker, or the command was acknowledged after the load of it.
func (state *State) ownerless() bool { return state.Status == fold.Active && state.Command == nil }

// working reports whether a run is in progress or requested.
func (state *State) working() bool { return state.Status == fold.Active || state.Waiting() != nil }

// suspended reports whether the latest run waits for answers.
func (state *State) suspended() bool {
	return state.Status == fold.Paused && state.Run.Status == fold.RunSuspended
}

// open returns the calls without an answer.
func (state *State) open() []PendingCall {
	var open []PendingCall
	for _, b := range state.Branches {
		open = append(open, b.open()...)
	}
	return open
}

func (b SuspendedRun) open() []PendingCall {
	return slices.DeleteFunc(slices.Clone(b.PendingCalls), func(w PendingCall) bool { return w.Answer != nil })
}

// firstResumable returns the first branch that can continue, nil if there is none: all its calls are answered, and no resume was requested. The client that
// stored the last answer may have crashed before its request.
func (state *State) firstResumable() *SuspendedRun {
	for i := range state.Branches {
		if b := &state.Branches[i]; !b.Resumed && len(b.PendingCalls) > 0 && len(b.open()) == 0 && !b.abandoned(state.Now) {
			return b
		}
	}
	return nil
}

// abandoned reports whether a message was sent instead of answers and its run is not requested yet.
func (b SuspendedRun) abandoned(now time.Time) bool {
	return slices.ContainsFunc(b.PendingCalls, func(w PendingCall) bool { return w.Answer != nil && w.Answer.AwaitsMessage(now) })
}

// awaitsOnlySubAgents reports whether the run is suspended only for running sub-agents: it continues without the user.
func (state *State) awaitsOnlySubAgents() bool {
	if !state.suspended() {
		return false
	}
	open := state.open()
	return len(open) > 0 && !slices.ContainsFunc(open, func(w PendingCall) bool { return w.Kind != control.SubagentResult })
}

// awaitsSubAgents reports whether the run is suspended and waits for sub-agents, possibly among others.
func (state *State) awaitsSubAgents() bool {
	return state.suspended() && slices.ContainsFunc(state.open(), func(w PendingCall) bool { return w.Kind == control.SubagentResult })
}

// SetAnswer sets the answer to a call of the session that waits according to the log: its run waits for other answers, too.
func (state *State) SetAnswer(c *fold.ToolCall) {
	w := state.wait(c.ID)
	if w == nil || w.Answer == nil {
		return
	}
	a := w.Answer
	switch {
	case w.Kind == control.ClientResult && c.State == fold.CallOpen:
		c.State, c.Output = fold.CallDone, a.Result
	case w.Kind == control.Approval && c.State == fold.CallAwaitingApproval && c.Approval.ID == w.Approval:
		c.State, c.Approval = fold.CallApproved, &fold.Approval{ID: w.Approval, Approved: &a.Approved}
		if a.Reason != "" {
			c.Approval.Reason = &a.Reason
		}
	default:
		return
	}
	if a.Failed() {
		c.State, c.Error = fold.CallFailed, a.Error
	}
}

// Answers returns the number of answers that runs have not read yet. It grows until the position of a session changes.
func (state *State) Answers() (n int) {
	for _, b := range state.Branches {
		for _, w := range b.PendingCalls {
			if w.Answer != nil {
				n++
			}
		}
	}
	return n
}

// SubAgentAwaitsUser reports whether a sub-agent waits for the user. Its call is not in the messages of the session: a page gets it from the stream alone.
func (state *State) SubAgentAwaitsUser() bool {
	return state.suspended() && !state.awaitsOnlySubAgents() && slices.ContainsFunc(state.open(), func(w PendingCall) bool {
		return w.Session != state.Session && w.Kind != control.SubagentResult
	})
}

// InFlight reports whether an answer is in flight.
func (state *State) InFlight() bool { return state.working() || state.awaitsOnlySubAgents() }

// wait returns the pending call of a client's answer, nil if no run waits for it or the caller must not know the call.
func (state *State) wait(clientID string) *PendingCall {
	for _, b := range state.Branches {
		if state.hides.callsOf(b.Session != state.Session) {
			continue
		}
		for i := range b.PendingCalls {
			if b.PendingCalls[i].UICallID == clientID {
				return &b.PendingCalls[i]
			}
		}
	}
	return nil
}
