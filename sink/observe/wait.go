package observe

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

func (s *session) isOpenWait(r ref) bool {
	it := s.at(r)
	return it != nil && !it.final
}

// approvalRequest begins the wait for a decision about a call. A rule that decides by itself is no wait before it has decided.
func (s *session) approvalRequest(b chunk.ToolApprovalRequest) {
	r := s.callStarts(b.ToolCallID, b.ToolName)
	s.setInput(r)
	if r == 0 || b.IsAutomatic != nil && *b.IsAutomatic {
		return
	}
	c := s.edit(r).call
	c.approved = false
	if s.isOpenWait(c.client) {
		s.endWait(c.client, row.Unknown)
	}
	s.await(r, row.Approval)
}

// approvalResponse ends the wait for a decision. A denial is the outcome of the call.
func (s *session) approvalResponse(b chunk.ToolApprovalResponse) {
	r := s.callEnds(b.ToolCallID, b.ToolName)
	if r == 0 {
		return
	}
	it := s.edit(r)
	automatic := b.IsAutomatic != nil && *b.IsAutomatic
	asked := s.isOpenWait(it.call.approval)
	if !asked && automatic {
		it.call.approval = s.newWait(it, row.Approval)
	}
	status := row.Completed
	if !b.Approved {
		status = row.Denied
	}
	if w := it.call.approval; s.isOpenWait(w) {
		wait := s.edit(w)
		wait.row.Approved, wait.row.DecidedAutomatically = new(b.Approved), new(automatic)
		wait.out = s.e.value
		s.endWait(w, status)
	}
	if s.isOpenWait(it.call.client) {
		s.endWait(it.call.client, row.Unknown)
	}
	if it.call.approved = asked && b.Approved; !b.Approved {
		s.outcome(r, row.Denied, "")
		return
	}
	if it.row.Status == row.Waiting {
		it.row.Status = row.Running
	}
}

// awaitClients begins the waits of a pause: for the calls of the turn that neither a worker nor a sub-agent runs.
func (s *session) awaitClients() {
	for n, it := range s.items {
		if it.row == nil || it.call == nil {
			continue
		}
		if c := it.call; c.turn == s.turn && !c.ended && c.hasInput && !c.approved && !c.server && !it.isSubagent() && !s.isOpenWait(c.approval) {
			s.await(ref(s.first+n+1), row.ClientTool)
		}
	}
}

// awaitClient begins the wait for a client that runs a call, unless the call waits for a decision.
func (s *session) awaitClient(id string) {
	if it := s.openCall(id); it != nil && !s.isOpenWait(it.call.approval) {
		s.await(s.byCall[id], row.ClientTool)
	}
}

// await begins a wait, or changes its deadline.
func (s *session) await(r ref, kind row.Kind) {
	it, deadline := s.edit(r), s.e.deadline
	w := &it.call.client
	if kind == row.Approval {
		w = &it.call.approval
	}
	if s.isOpenWait(*w) {
		if was := s.at(*w).row.Deadline; deadline.IsZero() || was != nil && was.Equal(deadline) {
			return
		}
	} else {
		*w = s.newWait(it, kind)
	}
	it.row.Status = row.Waiting
	if it.row.EndTime != nil { // its run was interrupted
		it.row.EndTime, it.row.DurationMS = nil, nil
		s.write(it)
	}
	wait := s.edit(*w)
	if !deadline.IsZero() {
		wait.row.Deadline = &deadline
	}
	s.write(wait)
}

func (s *session) newWait(call *item, kind row.Kind) ref {
	c := call.row
	r, it := s.add(kind, "SPAN", string(kind)+" "+c.ToolName, call.call.key)
	o := it.row
	o.TurnID, o.TraceID, o.ParentID, o.ParentSpanID = c.TurnID, c.TraceID, c.ID, c.SpanID // the call may be of the turn before
	o.Status, o.ToolName, o.ToolCallID, o.Step, o.Metadata = row.Waiting, c.ToolName, c.ToolCallID, c.Step, ""
	it.in = call.in
	return r
}

// endWait writes the row of a wait at its end.
func (s *session) endWait(r ref, status row.Status) {
	it := s.edit(r)
	s.end(it, status)
	s.finish(it)
}

// endWaits ends the waits of a call with its outcome. An approval without a decision is unknown, unless the outcome is a denial.
func (s *session) endWaits(call *item, status row.Status) {
	if w := call.call.client; s.isOpenWait(w) {
		s.setOutcome(w, call, status)
		s.endWait(w, status)
	}
	if w := call.call.approval; s.isOpenWait(w) {
		s.setOutcome(w, call, status)
		if status != row.Denied {
			s.endWait(w, row.Unknown)
			return
		}
		s.edit(w).row.Approved = new(false)
		s.endWait(w, row.Denied)
	}
}

func (s *session) setOutcome(w ref, call *item, status row.Status) {
	it := s.edit(w)
	if status == row.Completed {
		it.out = call.out
		return
	}
	it.row.Level, it.row.StatusMessage, it.row.ErrorCode = call.row.Level, call.row.StatusMessage, call.row.ErrorCode
}
