package fold

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// modeExecute is the mode of a run that opens a turn; any other goes on with the
// one that is open.
const modeExecute = "execute"

// control folds a record about the stream itself.
func (s *Snapshot) control(rec chunk.Record, body chunk.Body) {
	switch b := body.(type) {
	case chunk.RunStarted:
		s.runStarted(rec, b)
	case chunk.StreamPaused:
		s.paused()
	case chunk.StreamActive:
		if s.Status == Paused {
			s.resume()
		}
	case chunk.StreamEnd:
		s.ended(b)
	case chunk.StreamFailed:
		s.failed(b)
	}
}

// runStarted opens a run. It also opens a turn, with messages of its own,
// unless it goes on with the open one: a takeover, a resumption, or the same
// run once more. A resumption that brings words of a person opens a turn,
// because what follows is said after them.
func (s *Snapshot) runStarted(rec chunk.Record, b chunk.RunStarted) {
	same := s.turn != nil && s.Run.ID == b.RunID
	opens := s.turn == nil || !same && (b.Mode == modeExecute || len(b.Input) > 0)
	s.messages.close()
	s.stepStart = false
	run := Run{
		ID: b.RunID, Status: RunRunning, Epoch: rec.Epoch, Mode: b.Mode, Started: rec.Seq, Began: millis(rec),
		CheckpointID: b.CheckpointID, Parent: b.Parent,
	}
	if same {
		run.Started, run.Began, run.Usage = s.Run.Started, s.Run.Began, s.Run.Usage
	} else {
		s.leave(s.Run)
	}
	if !opens {
		// The step goes on counting: what a dead worker said of it is taken back
		// by a mark that is still to come, and is best undone from before it.
		run.Step = s.Run.Step
	}
	s.Run, s.Status, s.Failure = run, Active, nil
	if opens {
		s.openTurn(rec, b.Input)
	}
}

// leave remembers a run that another one follows.
func (s *Snapshot) leave(r Run) {
	if r.ID == "" {
		return // none, or one that nobody opened
	}
	if r.Status == RunRunning {
		r.Status = RunSuperseded
	}
	r.Output = nil // it may be large
	s.Past = latestOf(s.Past, r, MaxPast)
}

// latestOf is list with one more, without the oldest when there are too many. It
// is a new list: earlier snapshots have the old one.
func latestOf[T any](list []T, more T, most int) []T {
	kept := list[max(0, len(list)+1-most):]
	return append(append(make([]T, 0, len(kept)+1), kept...), more)
}

// resume makes a session that waited go on.
func (s *Snapshot) resume() {
	s.Status, s.Run.Status, s.Run.Interrupted = Active, RunRunning, false
}

// openTurn ends what the turn before could still change, and takes the inputs. A
// call that has no outcome yet may get one in this turn, but not in the next.
func (s *Snapshot) openTurn(rec chunk.Record, inputs []chunk.InputMessage) {
	h := &s.messages
	if !s.holding() {
		h.finish(h.turnFirst)
	}
	h.beginTurn()
	s.streams.beginTurn()
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool {
		t, _ := s.find(p.CallID)
		return t == nil
	})
	s.replace(inputs)
	for _, in := range inputs {
		h.input(rec.Seq, in)
	}
	s.finish()
	s.step = nil
	s.turn = s.base()
}

// input adds a message of a person.
func (h *history) input(seq chunk.Seq, in chunk.InputMessage) {
	m := message{index: h.count(), role: User, first: seq, last: seq, closed: true}
	m.shown = m.index
	if in.Content != "" || len(in.Files) == 0 {
		m.parts = append(m.parts, part{kind: textPart, text: []byte(in.Content)})
	}
	for _, f := range in.Files {
		m.parts = append(m.parts, part{raw: appendFile(nil, f.URL, f.MediaType, f.Filename)})
	}
	if in.Metadata != nil {
		m.metadata = *in.Metadata
	}
	if in.ClientMessageID != nil {
		m.clientID = *in.ClientMessageID
	}
	h.open, h.shown, h.changed = append(h.open, m), noMessage, true
}

// paused closes the answer at a point where it waits. Calls that have no
// outcome, and are not of sub-agents, wait for the client.
func (s *Snapshot) paused() {
	if s.Status == Ended || s.Status == Failed {
		return
	}
	s.messages.close()
	s.Status = Paused
	if s.Run.Status == RunRunning {
		s.Run.Status = RunSuspended
	}
	for i := range s.messages.open {
		if m := &s.messages.open[i]; m.index >= s.messages.turnFirst {
			s.awaitClients(m)
		}
	}
}

func (s *Snapshot) awaitClients(m *message) {
	for i := range m.parts {
		t := m.parts[i].tool
		if t == nil || t.state != inputAvailable || t.providerExecuted || s.delegated(t.callID) {
			continue
		}
		if place := s.messages.places()[t.callID]; place.index == m.index && place.part == i {
			s.awaitClient(t.callID, 0)
		}
	}
}

// delegated reports whether a sub-agent of this turn is at work on a call.
func (s *Snapshot) delegated(callID string) bool {
	return s.working(func(c *Child) bool { return c.CallID == callID })
}

// working reports whether a sub-agent of this turn that fits is at work.
func (s *Snapshot) working(fits func(*Child) bool) bool {
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.children {
			if c := &m.children[j]; m.index >= s.messages.turnFirst && c.Status == ChildRunning && fits(c) {
				return true
			}
		}
	}
	return false
}

// ended and failed close the run. The first of them wins.
func (s *Snapshot) ended(b chunk.StreamEnd) {
	if !s.close() {
		return
	}
	s.Status, s.Run.Status = Ended, RunEnded
	if s.Run.Interrupted {
		s.Status, s.Run.Status = Paused, RunInterrupted // stopped softly: it may be resumed
	}
	if b.FinalOutput != nil {
		s.Run.Output = *b.FinalOutput
	}
}

func (s *Snapshot) failed(b chunk.StreamFailed) {
	if !s.close() {
		return
	}
	s.Run.Status = RunFailed
	s.Status, s.Failure = Failed, &Failure{Message: b.Error, Detail: b.ErrorDetail}
}

// close ends the run, if it has not ended yet. What only this run asked for
// nobody waits for any more.
func (s *Snapshot) close() bool {
	if s.Status == Ended || s.Status == Failed {
		return false
	}
	s.messages.close()
	s.stepStart = false
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.RunID == s.Run.ID })
	return true
}

// sayRun folds chunks about the run and its steps.
func (s *Snapshot) sayRun(rec chunk.Record, c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.StepStart:
		s.messages.close()
		s.stepStart = true
	case chunk.StepEnd:
		s.stepEnd(b)
	case chunk.Error:
		s.closeText()
		s.reported(rec, b)
	case chunk.ExecutorSuperseded:
		s.closeText()
		if s.Run.Status == RunRunning {
			s.Run.Status = RunSuperseded
		}
	case chunk.Output:
		s.Run.Output = orNull(b.Output)
	case chunk.RunInterrupted:
		s.closeText()
		s.checkpoint(b.CheckpointID)
		if s.Status == Active {
			s.Status, s.Run.Status, s.Run.Interrupted = Paused, RunInterrupted, true
		}
	case chunk.RunResumed:
		if s.Status == Paused && s.Run.Interrupted {
			s.resume()
		}
	case chunk.RunPaused:
		s.closeText()
		if b.PendingToolCallID != nil {
			s.awaitClient(*b.PendingToolCallID, deadline(c.Extra))
		}
	case chunk.CheckpointCreated:
		s.checkpoint(&b.CheckpointID)
	case chunk.StepCommitted:
		s.checkpoint(&b.CheckpointID)
	case chunk.StreamResync:
		s.closeText()
		s.checkpoint(&b.CheckpointID)
	case chunk.SuspensionMarker:
		calls, deadline := suspendedCalls(b)
		for _, id := range calls {
			s.awaitClient(id, deadline)
		}
	default: // step_discarded: what it threw away was never said, or a mark takes it back
	}
}

// reported keeps an error that did not end the run.
func (s *Snapshot) reported(rec chunk.Record, b chunk.Error) {
	e := Error{Seq: rec.Seq, RunID: s.Run.ID, Message: cut(b.Error, maxErrorText), Recoverable: b.Recoverable}
	if b.Code != nil {
		e.Code = cut(*b.Code, maxErrorText)
	}
	s.Errors = latestOf(s.Errors, e, maxErrors)
}

func (s *Snapshot) checkpoint(id *string) {
	if id != nil {
		s.CheckpointID = id
	}
}

func (s *Snapshot) stepEnd(b chunk.StepEnd) {
	s.messages.close()
	s.stepStart = false
	if b.FinishReason != nil {
		s.Run.FinishReason = *b.FinishReason
	}
	if b.Usage != nil {
		s.Usage.add(*b.Usage)
		s.Run.Usage.add(*b.Usage)
	}
}

// sayChild folds the start and the end of a sub-agent.
func (s *Snapshot) sayChild(rec chunk.Record, body chunk.Body) {
	switch b := body.(type) {
	case chunk.SubagentStart:
		s.closeText()
		if s.working(func(c *Child) bool { return c.Session == b.SubSessionID }) {
			return // told once more
		}
		m := s.speaking(rec)
		m.children = append(m.children, Child{Session: b.SubSessionID, Type: b.SubAgentType, CallID: b.CallID, Status: ChildRunning})
	case chunk.SubagentEnd:
		c := s.child(rec, b)
		c.Status, c.Result = ChildEnded, orNull(b.Result)
		if hasError(b.Result) {
			c.Status = ChildFailed
		}
		s.messages.changed = true
	}
}

// child is the entry of the sub-agent that ended. One whose start nobody saw,
// that ended already, or that started before the turn before this one, is listed
// anew where its end is.
func (s *Snapshot) child(rec chunk.Record, b chunk.SubagentEnd) *Child {
	for i := len(s.messages.open) - 1; i >= 0 && s.messages.open[i].index >= s.messages.prevFirst; i-- {
		m := &s.messages.open[i]
		for j := len(m.children) - 1; j >= 0; j-- {
			c := &m.children[j]
			if c.Session != b.SubSessionID {
				continue
			}
			if c.Status != ChildRunning {
				return s.newChild(rec, b)
			}
			m.last = rec.Seq
			return c
		}
	}
	return s.newChild(rec, b)
}

func (s *Snapshot) newChild(rec chunk.Record, b chunk.SubagentEnd) *Child {
	m := s.speaking(rec)
	m.children = append(m.children, Child{Session: b.SubSessionID, Type: b.SubAgentType, CallID: b.CallID})
	return &m.children[len(m.children)-1]
}

// await lists a call that waits for somebody. A deadline holds until another
// one is set.
func (s *Snapshot) await(p Pending) {
	for _, was := range s.Pending {
		if was.CallID == p.CallID && was.Kind == p.Kind && p.Deadline == 0 {
			p.Deadline = was.Deadline
		}
	}
	s.answered(p.CallID)
	s.Pending = append(s.Pending, p)
}

// awaitClient lists a call that the client must run, if it has no outcome yet
// and does not wait for something else.
func (s *Snapshot) awaitClient(callID string, deadline int64) {
	t, _ := s.find(callID)
	if t == nil || t.state.settled() || t.state == approvalRequested {
		return
	}
	s.await(Pending{Kind: PendingClient, CallID: callID, ToolName: t.name, RunID: s.Run.ID, Deadline: deadline})
}

// answered takes a call off the list.
func (s *Snapshot) answered(callID string) {
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.CallID == callID })
}

// maxCount is the largest integer that a browser holds exactly.
const maxCount = 1<<53 - 1

func (u *Usage) add(more chunk.Usage) {
	add := func(sum *int64, n chunk.Number) { *sum = min(maxCount, *sum+count(n)) }
	add(&u.Input, more.InputTokens)
	add(&u.Output, more.OutputTokens)
	if more.CachedTokens != nil {
		add(&u.Cached, *more.CachedTokens)
	}
	if more.CacheWriteTokens != nil {
		add(&u.CacheWrite, *more.CacheWriteTokens)
	}
}
