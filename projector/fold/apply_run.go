package fold

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// modeExecute is the mode of a run that opens a turn; a run of any other mode continues the open turn.
const modeExecute = "execute"

// control folds a control record.
func (s *Snapshot) control(rec chunk.Record, body chunk.Body) {
	switch b := body.(type) {
	case chunk.RunStarted:
		s.runStarted(rec, b)
	case chunk.StreamPaused:
		s.pauseRun()
	case chunk.StreamActive:
		if s.Status == Paused {
			s.resume()
		}
	case chunk.StreamEnd:
		s.endRun(b)
	case chunk.StreamFailed:
		s.failRun(rec, b)
	}
}

// runStarted opens a run. It also opens a turn, with its own messages, unless the run continues the open turn: a takeover, a
// resumption, or the same run again. A resumption with user input opens a turn, because the output that follows is an answer to
// that input.
func (s *Snapshot) runStarted(rec chunk.Record, b chunk.RunStarted) {
	same := s.turn != nil && s.Run.ID == b.RunID
	opens := s.turn == nil || !same && (b.Mode == modeExecute || len(b.Input) > 0)
	s.messages.close()
	s.stepStart = false
	run := Run{
		ID: b.RunID, Status: RunRunning, Epoch: rec.Epoch, Mode: b.Mode, StartSeq: rec.Seq, StartedAt: millis(rec),
		CheckpointID: b.CheckpointID, Parent: b.Parent,
	}
	if same {
		run.StartSeq, run.StartedAt, run.Usage = s.Run.StartSeq, s.Run.StartedAt, s.Run.Usage
	} else {
		s.addPastRun(s.Run)
	}
	if !opens {
		// The step number continues: a truncated record that removes the output of a crashed worker may follow, and the state
		// to roll back to is the one before that step.
		run.Step = s.Run.Step
	}
	if b.By != nil && s.turn == nil && rec.Ordinal == s.chain.FirstOrdinal && s.Faults.Lost == 0 {
		s.Owner = &chunk.Principal{Subject: b.By.Subject, Issuer: b.By.Issuer}
	}
	s.counts.start(b, same)
	s.Run, s.Status, s.Failure = run, Active, nil
	if opens {
		s.openTurn(rec, b.Input)
	}
}

// addPastRun adds a run to the past runs.
func (s *Snapshot) addPastRun(r Run) {
	if r.ID == "" {
		return // no run, or a run without a run_started record
	}
	if r.Status == RunRunning {
		r.Status = RunSuperseded
	}
	r.Output = nil // it may be large
	s.PastRuns = latestOf(s.PastRuns, r, MaxPastRuns)
}

// latestOf returns list with one more element, without the oldest if there are more than most. It returns a new list, because
// earlier snapshots share the old one.
func latestOf[T any](list []T, more T, maxLen int) []T {
	kept := list[max(0, len(list)+1-maxLen):]
	return append(append(make([]T, 0, len(kept)+1), kept...), more)
}

// resume sets a paused session to active.
func (s *Snapshot) resume() {
	s.Status, s.Run.Status, s.Run.Interrupted = Active, RunRunning, false
}

// openTurn finishes the messages of the previous turn that could still change, and adds the inputs. A call without an outcome
// may get one in this turn, but not in the next one.
func (s *Snapshot) openTurn(rec chunk.Record, inputs []chunk.InputMessage) {
	h := &s.messages
	if !s.mustDefer() {
		h.finish(h.firstOfTurn)
	}
	h.beginTurn()
	s.streams.beginTurn()
	s.forgetPending()
	s.beginBranch(inputs)
	s.setTitle(inputs, h.count())
	for _, in := range inputs {
		h.input(rec.Seq, in)
	}
	s.finish()
	s.step = nil
	s.turn = s.base()
}

// forgetPending removes the pending calls whose message is finished.
func (s *Snapshot) forgetPending() {
	s.Pending = slices.DeleteFunc(s.Pending, func(p PendingCall) bool {
		t, _ := s.find(p.CallID)
		return t == nil
	})
}

// input adds a user message.
func (h *history) input(seq chunk.Seq, in chunk.InputMessage) {
	m := message{index: h.count(), role: User, first: seq, last: seq, closed: true}
	m.shown = m.index
	if in.Content != "" || len(in.Files)+len(in.Data) == 0 {
		m.parts = append(m.parts, part{kind: textPart, text: []byte(in.Content)})
	}
	for _, f := range in.Files {
		m.parts = append(m.parts, part{raw: appendFile(nil, f.URL, f.MediaType, f.Filename, chunk.Part{})})
	}
	for _, d := range in.Data {
		m.parts = append(m.parts, part{raw: appendInputData(nil, d)})
	}
	if in.Metadata != nil {
		m.metadata = *in.Metadata
	}
	if in.ClientMessageID != nil {
		m.clientID = *in.ClientMessageID
	}
	h.open, h.shown, h.changed = append(h.open, m), noMessage, true
}

// pauseRun closes the answer at a pause. Calls without an outcome that are not of sub-agents wait for the client.
func (s *Snapshot) pauseRun() {
	if s.Status == Ended || s.Status == Failed {
		return
	}
	s.messages.close()
	s.Status = Paused
	if s.Run.Status == RunRunning {
		s.Run.Status = RunSuspended
	}
	for i := range s.messages.open {
		if m := &s.messages.open[i]; m.index >= s.messages.firstOfTurn {
			s.awaitClients(m)
		}
	}
}

func (s *Snapshot) awaitClients(m *message) {
	for i := range m.parts {
		t := m.parts[i].tool
		if t == nil || t.State != CallOpen || t.ProviderExecuted || s.isDelegated(t.ID) {
			continue
		}
		if at := s.messages.locations()[t.ID]; at.index == m.index && at.part == m.sealed+i {
			s.awaitClient(t.ID, 0)
		}
	}
}

// isDelegated reports whether a sub-agent of this turn is running for a call.
func (s *Snapshot) isDelegated(callID string) bool {
	return s.hasRunningChild(func(c *Child) bool { return c.CallID == callID })
}

// hasRunningChild reports whether a sub-agent of this turn that fits is running.
func (s *Snapshot) hasRunningChild(fits func(*Child) bool) bool {
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.children {
			if c := &m.children[j]; m.index >= s.messages.firstOfTurn && c.Status == ChildRunning && fits(c) {
				return true
			}
		}
	}
	return false
}

// endRun and failRun close the run. Only the first of them has an effect, and the record of a deletion, which may follow either.
func (s *Snapshot) endRun(b chunk.StreamEnd) {
	if !s.close() {
		return
	}
	s.Status, s.Run.Status = Ended, RunEnded
	if s.Run.Interrupted {
		s.Status, s.Run.Status = Paused, RunInterrupted // interrupted: it may be resumed
	}
	if b.FinalOutput != nil {
		s.Run.Output = *b.FinalOutput
	}
}

func (s *Snapshot) failRun(rec chunk.Record, b chunk.StreamFailed) {
	f := &Failure{Message: b.Error, Detail: b.ErrorDetail}
	if s.close() {
		s.Run.Status = RunFailed
	} else if !f.Detail.IsDeletion() {
		return
	}
	s.Status, s.Failure = Failed, f
	code := ""
	if d := f.Detail; d != nil && d.Code != nil {
		code = *d.Code
	} else if d != nil && d.Category != nil {
		code = *d.Category
	}
	s.counts.fail(rec, code, b.Error, "")
}

// close ends the run and reports whether it was open. It removes the pending calls of this run.
func (s *Snapshot) close() bool {
	if s.Status == Ended || s.Status == Failed {
		return false
	}
	s.messages.close()
	s.stepStart = false
	s.Pending = slices.DeleteFunc(s.Pending, func(p PendingCall) bool { return p.RunID == s.Run.ID })
	return true
}

// applyRun folds chunks of the run and its steps.
func (s *Snapshot) applyRun(rec chunk.Record, c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.StepStart:
		s.messages.close()
		s.stepStart = true
	case chunk.StepEnd:
		s.stepEnd(b)
	case chunk.Error:
		s.closeText()
		s.addError(rec, b)
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
	default: // step_discarded: its output was never written, or a truncated record removes it
	}
}

// addError adds an error that did not end the run.
func (s *Snapshot) addError(rec chunk.Record, b chunk.Error) {
	e := Error{Seq: rec.Seq, RunID: s.Run.ID, Message: cut(b.Error, maxErrorText), Recoverable: b.Recoverable}
	if b.Code != nil {
		e.Code = cut(*b.Code, maxErrorText)
	}
	s.Errors = latestOf(s.Errors, e, maxErrors)
	s.counts.fail(rec, e.Code, e.Message, "")
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
		s.counts.use(b)
	}
}

// applyChild folds the start and the end of a sub-agent.
func (s *Snapshot) applyChild(rec chunk.Record, body chunk.Body) {
	switch b := body.(type) {
	case chunk.SubagentStart:
		s.closeText()
		if s.hasRunningChild(func(c *Child) bool { return c.Session == b.SubSessionID }) {
			return // a repeated start
		}
		m := s.currentMessage(rec)
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

// child returns the entry of the sub-agent that ended. A sub-agent without a start, one that has already ended, or one that
// started before the previous turn gets a new entry where its end is.
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
	m := s.currentMessage(rec)
	m.children = append(m.children, Child{Session: b.SubSessionID, Type: b.SubAgentType, CallID: b.CallID})
	return &m.children[len(m.children)-1]
}

// addPending adds a call to the pending calls. A deadline stays until another one is set.
func (s *Snapshot) addPending(p PendingCall) {
	for _, was := range s.Pending {
		if was.CallID == p.CallID && was.Kind == p.Kind && p.Deadline == 0 {
			p.Deadline = was.Deadline
		}
	}
	s.removePending(p.CallID)
	s.Pending = append(s.Pending, p)
}

// awaitClient adds a call that the client must execute, if it has no outcome yet and does not wait for an approval.
func (s *Snapshot) awaitClient(callID string, deadline int64) {
	t, _ := s.find(callID)
	if t == nil || t.State.hasOutcome() || t.State == CallAwaitingApproval {
		return
	}
	s.addPending(PendingCall{Kind: PendingClient, CallID: callID, ToolName: t.Name, RunID: s.Run.ID, Deadline: deadline})
}

// removePending removes a call from the pending calls.
func (s *Snapshot) removePending(callID string) {
	s.Pending = slices.DeleteFunc(s.Pending, func(p PendingCall) bool { return p.CallID == callID })
}

// maxCount is the largest integer that JavaScript represents exactly.
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
