package fold

import "github.com/tailrace/tailrace/chunk"

// emptyInput stands in for the input of a call whose start nobody saw.
var emptyInput = chunk.Value(`{}`)

// sayTool folds the records of tool calls. What belongs to the injected finish
// tool is not shown.
func (s *Snapshot) sayTool(rec chunk.Record, c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		s.toolArgsStart(rec, b)
	case chunk.ToolArgStreamDelta:
		if t := s.streaming(b.ToolCallID); t != nil {
			t.rawInput = join(t.rawInput, b.Delta)
		}
	case chunk.ToolStart:
		s.toolStart(rec, b)
	case chunk.ToolEnd:
		s.toolEnd(rec, b)
	case chunk.ToolInputError:
		s.toolInputError(rec, b)
	case chunk.ToolOutputError:
		if t := s.awaited(rec, b.ToolCallID, b.ToolName); t != nil {
			t.state, t.errorText, t.providerExecuted = outputError, b.Error, true
			s.settled(b.ToolCallID)
		}
	case chunk.ToolApprovalRequest:
		s.approvalRequest(rec, b, deadline(c.Extra))
	case chunk.ToolApprovalResponse:
		s.approvalResponse(rec, b)
	}
}

func (s *Snapshot) toolArgsStart(rec chunk.Record, b chunk.ToolArgStreamStart) {
	if b.ToolName == finishTool {
		if _, known := s.messages.places()[b.ToolCallID]; !known {
			s.messages.drop(b.ToolCallID)
		}
		return
	}
	t := s.call(rec, b.ToolCallID, b.ToolName)
	t.state, t.input, t.rawInput = inputStreaming, nil, nil
}

func (s *Snapshot) toolStart(rec chunk.Record, b chunk.ToolStart) {
	if b.ToolName == finishTool {
		return
	}
	t := s.call(rec, b.ToolCallID, b.ToolName)
	t.setInput(b.Arguments)
}

func (s *Snapshot) toolEnd(rec chunk.Record, b chunk.ToolEnd) {
	t := s.awaited(rec, b.ToolCallID, b.ToolName)
	if t == nil {
		return
	}
	if b.Error != nil {
		t.state, t.errorText = outputError, *b.Error
	} else {
		t.state, t.output = outputAvailable, orNull(b.Result)
	}
	if b.ProviderExecuted != nil && *b.ProviderExecuted {
		t.providerExecuted = true
	}
	s.settled(b.ToolCallID)
}

func (s *Snapshot) toolInputError(rec chunk.Record, b chunk.ToolInputError) {
	t := s.awaited(rec, b.ToolCallID, b.ToolName)
	if t == nil {
		return
	}
	s.closeText()
	t.state, t.errorText, t.rawInput = outputError, b.Error, nil
	t.input = nil
	if b.PartialInput != nil {
		t.input = *b.PartialInput
	}
	t.input = orNull(t.input)
	t.providerExecuted = true // the browser's too: nobody asked it to run that
	s.settled(b.ToolCallID)
}

// approvalRequest makes a call wait for a decision. One that a rule decides is
// not shown as a question.
func (s *Snapshot) approvalRequest(rec chunk.Record, b chunk.ToolApprovalRequest, deadline int64) {
	if b.ToolName == finishTool {
		return
	}
	t := s.call(rec, b.ToolCallID, b.ToolName)
	t.setInput(b.Input)
	if b.IsAutomatic != nil && *b.IsAutomatic {
		return
	}
	t.state, t.approval = approvalRequested, &approval{id: b.ApprovalID}
	s.await(Pending{
		Kind: PendingApproval, CallID: b.ToolCallID, ToolName: b.ToolName, RunID: s.Run.ID, ApprovalID: b.ApprovalID, Deadline: deadline,
	})
}

func (s *Snapshot) approvalResponse(rec chunk.Record, b chunk.ToolApprovalResponse) {
	t := s.awaited(rec, b.ToolCallID, b.ToolName)
	if t == nil {
		return
	}
	s.answered(b.ToolCallID)
	approved := b.Approved
	decided := &approval{id: b.ApprovalID, approved: &approved, reason: b.Reason}
	switch {
	case !approved:
		t.state, t.approval = outputDenied, decided
		s.settled(b.ToolCallID)
	case t.state == approvalRequested:
		t.state, t.approval = approvalResponded, decided
	}
}

// call is the tool part of a call that starts: the one it has in this turn while
// its outcome is open, else a new one at the end of the answer.
func (s *Snapshot) call(rec chunk.Record, id, name string) *tool {
	s.closeText()
	if t, m := s.find(id); t != nil && !t.state.settled() && m.index >= s.messages.turnFirst {
		m.last = rec.Seq
		return t
	}
	m := s.speaking(rec)
	t := &tool{callID: id, name: name, state: inputAvailable, providerExecuted: isSubagent(name)}
	m.parts = append(m.parts, part{kind: toolPart, tool: t})
	s.messages.place(id, callPlace{index: m.index, part: len(m.parts) - 1, known: true})
	return t
}

// awaited is the tool part of a call that has news, nil when the news come too
// late to change anything. A call whose start nobody saw gets a part.
func (s *Snapshot) awaited(rec chunk.Record, id, name string) *tool {
	if name == finishTool {
		return nil
	}
	if _, known := s.messages.places()[id]; !known {
		t := s.call(rec, id, name)
		t.setInput(emptyInput)
		return t
	}
	t, m := s.find(id)
	if t == nil || t.state.settled() {
		return nil
	}
	m.last = rec.Seq
	return t
}

// streaming is the tool part of a call whose arguments stream, nil if none.
func (s *Snapshot) streaming(id string) *tool {
	t, _ := s.find(id)
	if t == nil || t.state != inputStreaming {
		return nil
	}
	return t
}

// find is the tool part of a call with its message, nil when it is finished or
// unknown.
func (s *Snapshot) find(id string) (*tool, *message) {
	place := s.messages.places()[id]
	if !place.known {
		return nil, nil
	}
	m := s.messages.at(place.index)
	if m == nil {
		return nil, nil
	}
	return m.parts[place.part].tool, m
}

// setInput gives a call its input. A decision about it that came first stays.
func (t *tool) setInput(input chunk.Value) {
	t.input, t.rawInput = orNull(input), nil
	if t.state != approvalRequested && t.state != approvalResponded {
		t.state = inputAvailable
	}
}

// settled notes that a call has its outcome.
func (s *Snapshot) settled(callID string) {
	s.answered(callID)
	s.messages.changed = true
	if s.messages.places()[callID].index < s.messages.turnFirst {
		s.messages.drop(callID)
	}
}

func orNull(v chunk.Value) chunk.Value {
	if len(v) == 0 {
		return chunk.Value("null")
	}
	return v
}
