package observe_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

func isTrue(b *bool) bool { return b != nil && *b }

func (r *reference) applyCall(c chunk.Chunk) {
	switch b := c.Body.(type) {
	case chunk.ToolArgStreamStart:
		if call := r.begins(b.ToolCallID, b.ToolName); call != nil {
			call.complete = false
		}
	case chunk.ToolStart:
		if call := r.begins(b.ToolCallID, b.ToolName); call != nil {
			call.complete, call.byServer = true, call.byServer || chunk.RunByProvider(c.Extra)
		}
	case chunk.ToolApprovalRequest:
		r.ask(b)
	case chunk.ToolApprovalResponse:
		r.decide(b)
	case chunk.ToolEnd:
		call := r.completes(b.ToolCallID, b.ToolName)
		switch {
		case b.Error != nil && b.ErrorCode != nil && *b.ErrorCode == "client_tool_denied":
			r.outcome(call, row.Denied)
		case b.Error != nil, call != nil && call.childFailed:
			r.outcome(call, row.Failed)
		default:
			r.outcome(call, row.Completed)
		}
	case chunk.ToolInputError:
		r.outcome(r.completes(b.ToolCallID, b.ToolName), row.Rejected)
	case chunk.ToolOutputError:
		r.outcome(r.completes(b.ToolCallID, b.ToolName), row.Failed)
	case chunk.SubagentStart:
		if call := r.call(b.CallID); call != nil && !call.done {
			call.byChild = true
		}
	case chunk.SubagentEnd:
		if call := r.call(b.CallID); call != nil && !call.done {
			var result map[string]any
			failed := json.Unmarshal(b.Result, &result) == nil && result["error"] != nil
			call.childFailed = call.childFailed || failed
		}
	case chunk.RunPaused:
		if b.PendingToolCallID != nil {
			r.client(*b.PendingToolCallID)
		}
	case chunk.SuspensionMarker:
		var payload struct {
			ToolCallIDs []string `json:"toolCallIds"`
		}
		if json.Unmarshal(b.Payload, &payload) == nil {
			for _, id := range payload.ToolCallIDs {
				r.client(id)
			}
		}
	}
}

func (r *reference) ask(b chunk.ToolApprovalRequest) {
	c := r.begins(b.ToolCallID, b.ToolName)
	if c == nil {
		return
	}
	c.complete = true
	if isTrue(b.IsAutomatic) {
		return
	}
	c.approved = false
	if c.client.isOpen() {
		c.client.end(row.Unknown, r.at)
	}
	r.wait(c, &c.approval, row.Approval)
}

func (r *reference) decide(b chunk.ToolApprovalResponse) {
	c := r.completes(b.ToolCallID, b.ToolName)
	if c == nil {
		return
	}
	asked := c.approval.isOpen()
	if !asked && isTrue(b.IsAutomatic) {
		c.approval = r.add(row.Approval, row.Waiting, c.id)
	}
	if c.client.isOpen() {
		c.client.end(row.Unknown, r.at)
	}
	if c.approved = asked && b.Approved; b.Approved {
		if c.approval.isOpen() {
			c.approval.end(row.Completed, r.at)
		}
		if c.Status == row.Waiting {
			c.Status = row.Running
		}
		return
	}
	if c.approval.isOpen() {
		c.approval.end(row.Denied, r.at)
	}
	r.outcome(c, row.Denied)
}

// The rows that count have the states and times of the reference.
func TestRowsAreThoseOfTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := logs(sinktest.Config{Cleanups: true, Hostile: true, Clocks: true}).Draw(t, "log")
		want := referenceRows(sinktest.Remaining(log))
		got := map[string]*plain{}
		for _, o := range current(rowsOf(observe.Config{}, log)) {
			p := &plain{Kind: o.Kind, Status: o.Status, Start: o.StartTime}
			if o.EndTime != nil {
				p.End = *o.EndTime
			}
			if o.Kind == row.Run && o.Status != row.Running {
				p.Calls, p.Steps = *o.ToolCalls, *o.Steps
			}
			if o.Kind != row.Tool && o.Kind != row.Step || o.EndTime != nil {
				got[fmt.Sprintf("%s %s %d %s", o.Session, o.Kind, o.FirstOrdinal, o.ToolCallID)] = p
			}
		}
		for key, p := range got { // of a call that was removed, see TestRowsOfTheRemainingLog
			if want[key] == nil && (p.Kind == row.Approval || p.Kind == row.ClientTool) && p.Status != row.Waiting {
				delete(got, key)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(plain{})); diff != "" {
			t.Fatalf("%s\n%s", diff, log)
		}
	})
}

// referenceRows returns the rows that the rules demand of a log without cleanups.
func referenceRows(log sinktest.Log) map[string]*plain {
	all, sessions := map[string]*plain{}, map[chunk.Session]*reference{}
	for _, rec := range log {
		r := sessions[rec.Session]
		if r == nil {
			r = &reference{all: all}
			sessions[rec.Session] = r
		}
		if rec.Epoch < r.rec.Epoch {
			continue
		}
		r.rec.Epoch = rec.Epoch
		c, err := rec.Decode()
		if _, opaque := c.Body.(chunk.Opaque); err != nil || opaque || c.Type() != rec.Type {
			continue
		}
		r.rec, r.at = rec, rec.StoredAt.UTC()
		if c.Timestamp > 0 {
			r.at = time.UnixMilli(c.Timestamp).UTC()
		}
		r.apply(c)
	}
	for key, p := range all {
		switch {
		case (p.Kind == row.Tool || p.Kind == row.Step) && p.End.IsZero():
			delete(all, key)
		case p.Kind == row.Run && p.Status == row.Running: // its row has the sums of an earlier record
			p.Calls, p.Steps = 0, 0
		}
	}
	return all
}
