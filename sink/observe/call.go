package observe

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

const (
	finishTool   = "__finish__" // with it an agent writes its structured output; it is not a call
	subagentTool = "subagent__" // prefix of the tools that are sub-agents

	codeDenied = "client_tool_denied" // of the outcome of a call that a user has denied
)

// callState is what only a call has.
type callState struct {
	key       string // its id
	before    ref    // the call that had the id before
	turn      int
	hasInput  bool    // its arguments are complete
	delegated bool    // a sub-agent runs for it
	server    bool    // the worker or the provider of the model runs it
	approved  bool    // by a user: the worker runs it
	ended     bool    // it has its outcome
	failure   *string // the error of its sub-agent

	approval, client ref // the latest waits
}

// isOpen reports whether a call has neither an outcome nor ended with its run.
func (it *item) isOpen() bool {
	return it.row != nil && (it.row.Status == row.Running || it.row.Status == row.Waiting)
}

// interruptCalls ends the open calls of a turn.
func (s *session) interruptCalls(turn int) {
	for n, it := range s.items {
		if it.call != nil && it.call.turn == turn && it.isOpen() {
			s.interrupt(ref(s.first + n + 1))
		}
	}
}

// openCall returns the call that an outcome would complete, nil for none.
func (s *session) openCall(id string) *item {
	if it := s.at(s.byCall[id]); it != nil && !it.call.ended {
		return it
	}
	return nil
}

// applyCall applies the records of calls.
func (s *session) applyCall(body chunk.Body) {
	switch b := body.(type) {
	case chunk.ToolArgStreamStart:
		s.output()
		if r := s.callStarts(b.ToolCallID, b.ToolName); r > 0 {
			s.edit(r).call.hasInput = false
		}
	case chunk.ToolStart:
		s.output()
		s.setInput(s.callStarts(b.ToolCallID, b.ToolName))
	case chunk.ToolApprovalRequest:
		s.approvalRequest(b)
	case chunk.ToolApprovalResponse:
		s.approvalResponse(b)
	case chunk.ToolEnd:
		s.toolEnd(b)
	case chunk.ToolInputError:
		if r := s.callEnds(b.ToolCallID, b.ToolName); r > 0 {
			if s.e.value != nil {
				s.edit(r).in = s.e.value
			}
			s.outcome(r, row.Rejected, "")
		}
	case chunk.ToolOutputError:
		if r := s.callEnds(b.ToolCallID, b.ToolName); r > 0 {
			s.outcome(r, row.Failed, "")
		}
	case chunk.SubagentStart:
		if s.openCall(b.CallID) != nil {
			s.edit(s.byCall[b.CallID]).call.delegated = true
		}
	case chunk.SubagentEnd:
		if s.openCall(b.CallID) != nil {
			c := s.edit(s.byCall[b.CallID]).call
			if c.delegated = false; s.e.flag {
				c.failure = &s.e.text
			}
		}
	case chunk.RunPaused:
		if b.PendingToolCallID != nil {
			s.awaitClient(*b.PendingToolCallID)
		}
	case chunk.SuspensionMarker:
		for _, id := range s.e.calls {
			s.awaitClient(id)
		}
	}
}

// callStarts returns the call that a record begins or continues, 0 for one that is not shown as a call. An id may be used again after the outcome, and in a later turn.
func (s *session) callStarts(id, tool string) ref {
	if tool == finishTool {
		return 0
	}
	r := s.byCall[id]
	if it := s.at(r); it == nil || it.call.ended || it.call.turn < s.turn {
		if it != nil && it.isOpen() {
			s.interrupt(r)
		}
		r = s.newCall(id, tool)
	}
	it := s.edit(r)
	it.call.server = it.call.server || s.e.flag
	if s.e.meta != "" {
		it.row.Metadata = s.e.meta
	}
	return r
}

func (s *session) newCall(id, tool string) ref {
	parent := s.at(s.run).row
	if s.step > 0 {
		parent = s.at(s.step).row
	}
	r, it := s.add(row.Tool, "TOOL", tool, id)
	it.call = &callState{key: id, turn: s.turn}
	if before := s.byCall[id]; s.at(before) != nil {
		it.call.before = before
	}
	it.row.ToolName, it.row.ToolCallID = row.Text(tool), row.Text(id)
	it.row.ParentID, it.row.ParentSpanID = parent.ID, parent.SpanID
	s.byCall[id] = r
	if s.step > 0 {
		s.edit(s.step).step.add(stepCall{it.row.ToolCallID, it.row.ToolName})
	}
	return r
}

// add adds a call to the output of the step, as far as the output has space.
func (st *stepState) add(c stepCall) {
	const perCall = 25
	if st.bytes += len(c.id) + len(c.name) + perCall; st.bytes <= maxContent/2 {
		st.calls = append(st.calls, c)
	}
}

func (s *session) setInput(r ref) {
	if r > 0 {
		it := s.edit(r)
		it.in, it.call.hasInput = s.e.value, true
	}
}

// callEnds returns the call that a record completes: 0 for one that has its outcome. A call without a start begins with it.
func (s *session) callEnds(id, tool string) ref {
	it := s.at(s.byCall[id])
	switch {
	case tool == finishTool, it != nil && it.call.ended:
		return 0
	case it == nil:
		r := s.newCall(id, tool)
		s.edit(r).call.hasInput = true
		return r
	}
	return s.byCall[id]
}

func (s *session) toolEnd(b chunk.ToolEnd) {
	r := s.callEnds(b.ToolCallID, b.ToolName)
	if r == 0 {
		return
	}
	it := s.edit(r)
	it.call.server = it.call.server || b.ProviderExecuted != nil && *b.ProviderExecuted
	code := orEmpty(b.ErrorCode)
	switch {
	case b.Error != nil && code == codeDenied:
		s.outcome(r, row.Denied, code)
	case b.Error != nil:
		s.outcome(r, row.Failed, code)
	case it.call.failure != nil: // the result says that the sub-agent failed
		it.out = s.e.value
		s.outcome(r, row.Failed, code)
	default:
		it.out = s.e.value
		s.outcome(r, row.Completed, code)
	}
}

// outcome ends a call, its waits, and counts it in the present run.
func (s *session) outcome(r ref, status row.Status, code string) {
	it := s.edit(r)
	it.call.ended = true
	if status != row.Completed {
		text := s.e.text
		if it.call.failure != nil && text == "" {
			text = *it.call.failure
		}
		fail(it.row, text, code)
	}
	s.endWaits(it, status)
	run := s.edit(s.run)
	run.run.calls++
	if status == row.Failed || status == row.Rejected {
		run.run.failedCalls++
	}
	run.setSums()
	s.endCall(it, status)
	s.release(it)
	s.rewriteEnded(run)
}

// interrupt ends a call with its run. It may still get an outcome.
func (s *session) interrupt(r ref) {
	it := s.edit(r)
	for _, w := range []ref{it.call.approval, it.call.client} {
		if s.isOpenWait(w) {
			s.endWait(w, row.Interrupted)
		}
	}
	s.endCall(it, row.Interrupted)
}

func (s *session) endCall(it *item, status row.Status) {
	if it.call.server {
		it.row.ProviderExecuted = new(true)
	}
	s.end(it, status)
	s.write(it)
}

// isSubagent reports whether a sub-agent runs for the call, or will.
func (it *item) isSubagent() bool {
	return it.call.delegated || strings.HasPrefix(it.row.ToolName, subagentTool)
}
