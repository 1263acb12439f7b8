package observe

import (
	"encoding/json"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// approvalRequest begins the wait for a decision about a call. A rule that decides by itself is no wait before it has decided.
func (f *Folder) approvalRequest(s *session, b chunk.ToolApprovalRequest, in *input) {
	c := f.callStarts(s, b.ToolCallID, b.ToolName, in)
	if c == nil || b.IsAutomatic != nil && *b.IsAutomatic {
		return
	}
	f.await(s, c, &c.approval, row.Approval, deadlineOf(f.c.Extra))
}

// approvalResponse ends the wait for a decision. A denial is the outcome of the call.
func (f *Folder) approvalResponse(s *session, b chunk.ToolApprovalResponse) {
	c := f.callOf(s, b.ToolCallID, b.ToolName)
	if c == nil {
		return
	}
	automatic := b.IsAutomatic != nil && *b.IsAutomatic
	if !c.approval.open() && automatic {
		c.approval = wait{row: f.newWait(s, c, row.Approval)}
	}
	shown, _ := shownBody[chunk.ToolApprovalResponse](f)
	status, reason := row.Completed, ""
	if shown.Reason != nil {
		reason = *shown.Reason
	}
	if !b.Approved {
		status = row.Denied
	}
	if w := &c.approval; w.open() {
		w.row.Approved, w.row.DecidedAutomatically = new(b.Approved), new(automatic)
		w.row.StatusMessage = row.Text(reason)
		f.endWait(w, status)
	}
	c.approved = b.Approved && !automatic
	if !b.Approved {
		f.outcome(s, outcome{id: b.ToolCallID, tool: b.ToolName, status: row.Denied, text: reason})
	}
}

// suspended begins the waits of a runtime that stays alive: the calls are those in its payload.
func (f *Folder) suspended(s *session, b chunk.SuspensionMarker) {
	var payload struct {
		ToolCallIDs []string        `json:"toolCallIds"`
		Deadline    json.RawMessage `json:"deadline"`
	}
	if err := json.Unmarshal(b.Payload, &payload); err != nil {
		return
	}
	for _, id := range payload.ToolCallIDs {
		f.awaitClient(s, id, momentOf(chunk.Value(payload.Deadline)))
	}
}

// awaitClient begins the wait for a client that runs a call, unless the call waits for a decision.
func (f *Folder) awaitClient(s *session, id string, deadline time.Time) {
	if c := s.calls[id]; c != nil && !c.ended() && !c.approval.open() {
		f.await(s, c, &c.client, row.ClientTool, deadline)
	}
}

// await begins a wait, or changes its deadline.
func (f *Folder) await(s *session, c *call, w *wait, kind row.Kind, deadline time.Time) {
	same := w.open() && (deadline.IsZero() || w.row.Deadline != nil && w.row.Deadline.Equal(deadline))
	if same {
		return
	}
	if !w.open() {
		*w = wait{row: f.newWait(s, c, kind)}
	}
	if !deadline.IsZero() {
		w.row.Deadline = &deadline
	}
	f.emit(w.row)
}

func (f *Folder) newWait(s *session, c *call, kind row.Kind) *row.Observation {
	o := f.newRow(s, kind, "SPAN", string(kind)+" "+c.row.ToolName, c.row.ToolCallID)
	o.ParentID, o.ParentSpanID, o.Status = c.row.ID, c.row.SpanID, row.Waiting
	o.ToolName, o.ToolCallID, o.Step, o.Input, o.InputBytes = c.row.ToolName, c.row.ToolCallID, c.row.Step, c.row.Input, c.row.InputBytes
	return &o
}

// endWait writes the row of a wait at its end.
func (f *Folder) endWait(w *wait, status row.Status) {
	w.decidedAt = f.rec.Ordinal
	f.end(w.row, status)
	f.emit(w.row)
}

// endWaits ends the waits of a call with its outcome. An approval without a decision is unknown, unless the outcome is a denial.
func (f *Folder) endWaits(c *call, out outcome) {
	if w := &c.client; w.open() {
		f.outcomeOfWait(w, out)
		f.endWait(w, out.status)
	}
	if w := &c.approval; w.open() {
		f.outcomeOfWait(w, out)
		if out.status == row.Denied {
			w.row.Approved = new(false)
			f.endWait(w, row.Denied)
			return
		}
		f.endWait(w, row.Unknown)
	}
}

func (f *Folder) outcomeOfWait(w *wait, out outcome) {
	if out.status != row.Completed {
		fail(w.row, out.text, out.code)
		return
	}
	setOutput(w.row, out.shown, out.size)
}
