package fold

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// emptyInput replaces the input of a call without a start.
var emptyInput = chunk.Value(`{}`)

// applyTool folds the records of tool calls. The internal finish tool is not shown.
func (s *Snapshot) applyTool(rec chunk.Record, c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		s.toolArgsStart(rec, b, c.Extra)
	case chunk.ToolArgStreamDelta:
		if t := s.streaming(b.ToolCallID); t != nil {
			t.rawInput = join(t.rawInput, b.Delta)
		}
	case chunk.ToolStart:
		s.toolStart(rec, b, c.Extra)
	case chunk.ToolEnd:
		s.toolEnd(rec, b, chunk.PartOf(c.Extra))
	case chunk.ToolInputError:
		s.toolInputError(rec, b, chunk.PartOf(c.Extra))
	case chunk.ToolOutputError:
		if t := s.openCall(rec, b.ToolCallID, b.ToolName); t != nil {
			t.State, t.Error, t.ProviderExecuted = CallFailed, b.Error, true
			s.counts.failCall(rec, t.Error, t.Name)
			s.completeCall(b.ToolCallID)
		}
	case chunk.ToolApprovalRequest:
		s.approvalRequest(rec, b, c.Extra)
	case chunk.ToolApprovalResponse:
		s.approvalResponse(rec, b)
	}
}

func (s *Snapshot) toolArgsStart(rec chunk.Record, b chunk.ToolArgStreamStart, extra []chunk.Member) {
	if b.ToolName == finishTool {
		if _, known := s.messages.locations()[b.ToolCallID]; !known {
			s.messages.drop(b.ToolCallID)
		}
		return
	}
	t := s.call(rec, b.ToolCallID, b.ToolName)
	t.State, t.Input, t.rawInput = CallStreaming, nil, nil
	t.setMembers(chunk.PartOf(extra))
	t.ProviderExecuted = t.ProviderExecuted || chunk.RunByProvider(extra)
}

func (s *Snapshot) toolStart(rec chunk.Record, b chunk.ToolStart, extra []chunk.Member) {
	if b.ToolName == finishTool {
		return
	}
	t := s.call(rec, b.ToolCallID, b.ToolName)
	t.setInput(b.Arguments)
	t.setMembers(chunk.PartOf(extra))
	t.ProviderExecuted = t.ProviderExecuted || chunk.RunByProvider(extra) // no client waits for it
}

func (s *Snapshot) toolEnd(rec chunk.Record, b chunk.ToolEnd, ui chunk.Part) {
	t := s.openCall(rec, b.ToolCallID, b.ToolName)
	if t == nil {
		return
	}
	if b.Error != nil {
		t.State, t.Error = CallFailed, *b.Error
		s.counts.failCall(rec, t.Error, t.Name)
	} else {
		t.State, t.Output = CallDone, orNull(b.Result)
	}
	if b.ProviderExecuted != nil && *b.ProviderExecuted {
		t.ProviderExecuted = true
	}
	t.setExtra(resultMetadata, ui.ProviderMetadata)
	t.setExtra(toolMetadata, ui.ToolMetadata)
	s.completeCall(b.ToolCallID)
}

func (s *Snapshot) toolInputError(rec chunk.Record, b chunk.ToolInputError, ui chunk.Part) {
	t := s.openCall(rec, b.ToolCallID, b.ToolName)
	if t == nil {
		return
	}
	s.closeText()
	t.State, t.Error, t.rawInput = CallFailed, b.Error, nil
	s.counts.failCall(rec, t.Error, t.Name)
	t.Input = nil
	if b.PartialInput != nil {
		t.Input = *b.PartialInput
	}
	t.Input = orNull(t.Input)
	t.setExtra(resultMetadata, ui.ProviderMetadata) // the part is complete with it
	ui.ProviderMetadata, ui.Title = nil, nil        // the client ignores this title
	t.setMembers(ui)
	t.ProviderExecuted = true // also for a tool of the client: the client must not execute it
	s.completeCall(b.ToolCallID)
}

// approvalRequest makes a call wait for a decision. A request that a rule decides is not shown as a question.
func (s *Snapshot) approvalRequest(rec chunk.Record, b chunk.ToolApprovalRequest, extra []chunk.Member) {
	if b.ToolName == finishTool {
		return
	}
	t := s.call(rec, b.ToolCallID, b.ToolName)
	t.setInput(b.Input)
	t.setMembers(chunk.PartOf(extra))
	if b.IsAutomatic != nil && *b.IsAutomatic {
		return
	}
	t.State, t.Approval = CallAwaitingApproval, &Approval{ID: b.ApprovalID}
	s.addPending(PendingCall{
		Kind: PendingApproval, CallID: b.ToolCallID, ToolName: b.ToolName, RunID: s.Run.ID, ApprovalID: b.ApprovalID, Deadline: deadline(extra),
	})
}

func (s *Snapshot) approvalResponse(rec chunk.Record, b chunk.ToolApprovalResponse) {
	t := s.openCall(rec, b.ToolCallID, b.ToolName)
	if t == nil {
		return
	}
	s.removePending(b.ToolCallID)
	approved := b.Approved
	decided := &Approval{ID: b.ApprovalID, Approved: &approved, Reason: b.Reason}
	switch {
	case !approved:
		t.State, t.Approval = CallDenied, decided
		s.completeCall(b.ToolCallID)
	case t.State == CallAwaitingApproval:
		t.State, t.Approval = CallApproved, decided
	}
}

// call returns the tool part of a call that starts: the existing one of this turn while it has no outcome, else a new one at
// the end of the answer.
func (s *Snapshot) call(rec chunk.Record, id, name string) *ToolCall {
	s.closeText()
	if t, m := s.find(id); t != nil && !t.State.hasOutcome() && m.index >= s.messages.firstOfTurn {
		m.last = rec.Seq
		return t
	}
	m := s.currentMessage(rec)
	t := &ToolCall{ID: id, Name: name, State: CallOpen, ProviderExecuted: isSubagent(name)}
	s.messages.add(m, part{kind: toolPart, tool: t})
	s.messages.setLocation(id, callLocation{index: m.index, part: m.sealed + len(m.parts) - 1, known: true})
	return t
}

// openCall returns the tool part of a call for an update, nil if the update is too late to change anything. A call without a
// start gets a part.
func (s *Snapshot) openCall(rec chunk.Record, id, name string) *ToolCall {
	if name == finishTool {
		return nil
	}
	if _, known := s.messages.locations()[id]; !known {
		t := s.call(rec, id, name)
		t.setInput(emptyInput)
		return t
	}
	t, m := s.find(id)
	if t == nil || t.State.hasOutcome() {
		return nil
	}
	m.last = rec.Seq
	return t
}

// streaming returns the tool part of a call whose arguments are streaming, nil if there is none.
func (s *Snapshot) streaming(id string) *ToolCall {
	t, _ := s.find(id)
	if t == nil || t.State != CallStreaming {
		return nil
	}
	return t
}

// find returns the tool part of a call and its message, nil if the message is finished or the call is unknown.
func (s *Snapshot) find(id string) (*ToolCall, *message) {
	at := s.messages.locations()[id]
	if !at.known {
		return nil, nil
	}
	m := s.messages.at(at.index)
	if m == nil {
		return nil, nil
	}
	return m.parts[at.part-m.sealed].tool, m
}

// setInput sets the input of a call. An earlier decision about the call stays.
func (c *ToolCall) setInput(input chunk.Value) {
	c.Input, c.rawInput = orNull(input), nil
	if c.State != CallAwaitingApproval && c.State != CallApproved {
		c.State = CallOpen
	}
}

// The members of ToolCall.Extra, in their order.
const (
	callTitle      = "title"
	toolMetadata   = "toolMetadata"
	callMetadata   = "callProviderMetadata"
	resultMetadata = "resultProviderMetadata"
)

var toolExtras = []string{callTitle, toolMetadata, callMetadata, resultMetadata}

// setMembers sets what a chunk that begins the call says about its part.
func (c *ToolCall) setMembers(ui chunk.Part) {
	c.Static = c.Static || ui.Static && !strings.HasPrefix(c.Name, subagentTool) && c.Name != ""
	c.setExtra(callTitle, ui.Title)
	c.setExtra(toolMetadata, ui.ToolMetadata)
	c.setExtra(callMetadata, ui.ProviderMetadata)
}

// setExtra sets a member of extra, unless the value is nil. Earlier snapshots may share the old list.
func (c *ToolCall) setExtra(name string, v chunk.Value) {
	if v == nil {
		return
	}
	m := chunk.Member{Name: name, Value: v}
	place := func(m chunk.Member) int { return slices.Index(toolExtras, m.Name) }
	i := slices.IndexFunc(c.Extra, func(have chunk.Member) bool { return place(have) >= place(m) })
	switch {
	case i < 0:
		c.Extra = append(slices.Clip(c.Extra), m)
	case c.Extra[i].Name == name:
		c.Extra = slices.Clone(c.Extra)
		c.Extra[i] = m
	default:
		c.Extra = slices.Insert(slices.Clone(c.Extra), i, m)
	}
}

// completeCall records that a call has its outcome.
func (s *Snapshot) completeCall(callID string) {
	s.removePending(callID)
	s.messages.changed = true
	if s.messages.locations()[callID].index < s.messages.firstOfTurn {
		s.messages.drop(callID)
	}
}

func orNull(v chunk.Value) chunk.Value {
	if len(v) == 0 {
		return chunk.Value("null")
	}
	return v
}
