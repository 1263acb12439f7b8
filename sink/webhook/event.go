package webhook

import (
	"encoding/json"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/row"
)

// The types of webhooks.
const (
	RunStarted        = "tailrace.run.started"
	RunSuspended      = "tailrace.run.suspended" // it waits for a user or a client; the turn continues later, mostly as another run
	RunCompleted      = "tailrace.run.completed"
	RunFailed         = "tailrace.run.failed"
	RunInterrupted    = "tailrace.run.interrupted" // it was stopped, or another run has taken its place
	ApprovalRequested = "tailrace.approval.requested"
	ApprovalDecided   = "tailrace.approval.decided" // or it is not waited for any more: see the state
	ToolFailed        = "tailrace.tool.failed"
	SessionDeleted    = "tailrace.session.deleted"
)

// Select reports whether a row becomes a webhook.
func Select(r export.Row) bool { return typeOf(r) != "" }

// typeOf returns the type of the webhook of a row, "" for a row without one.
func typeOf(r export.Row) string {
	switch {
	case r.Deletion != nil:
		return SessionDeleted
	case r.Kind == row.Run:
		return typeOfRun(r.Observation)
	case r.Kind == row.Approval && r.Status == row.Waiting:
		return ApprovalRequested
	case r.Kind == row.Approval:
		return ApprovalDecided
	case r.Kind == row.Tool && (r.Status == row.Failed || r.Status == row.Rejected):
		return ToolFailed
	}
	return ""
}

func typeOfRun(o *row.Observation) string {
	switch o.Status {
	case row.Running:
		if o.Seq == o.FirstSeq {
			return RunStarted
		}
		return "" // a takeover, or a run that was suspended continues
	case row.Suspended:
		return RunSuspended
	case row.Completed:
		return RunCompleted
	case row.Failed, row.Abandoned:
		return RunFailed
	}
	return RunInterrupted
}

// event is a CloudEvents event.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Time            time.Time `json:"time"` // at which the record was stored
	DataContentType string    `json:"datacontenttype"`
	Data            data      `json:"data"`
}

// data is the data of a webhook. Members without a value are left out.
type data struct {
	Tenant        string     `json:"tenant"`
	Root          string     `json:"root"`
	Session       string     `json:"session"`
	Sequence      int64      `json:"sequence"`
	ID            string     `json:"id,omitempty"` // of the row, equal for all webhooks about one run, approval or call
	ParentID      string     `json:"parentId,omitempty"`
	TraceID       string     `json:"traceId,omitempty"`
	SpanID        string     `json:"spanId,omitempty"`
	AgentType     string     `json:"agentType,omitempty"`
	RunID         string     `json:"runId,omitempty"`
	TurnID        string     `json:"turnId,omitempty"`
	ParentSession string     `json:"parentSession,omitempty"`
	ParentCallID  string     `json:"parentCallId,omitempty"`
	UserID        string     `json:"userId,omitempty"`
	UserIssuer    string     `json:"userIssuer,omitempty"`
	ToolName      string     `json:"toolName,omitempty"`
	ToolCallID    string     `json:"toolCallId,omitempty"`
	Status        row.Status `json:"status,omitempty"`
	ErrorCode     string     `json:"errorCode,omitempty"`
	FinishReason  string     `json:"finishReason,omitempty"`
	StartedAt     *time.Time `json:"startedAt,omitempty"`
	EndedAt       *time.Time `json:"endedAt,omitempty"`
	DurationMS    *int64     `json:"durationMs,omitempty"`
	Approved      *bool      `json:"approved,omitempty"`
	Automatic     *bool      `json:"decidedAutomatically,omitempty"`
	Deadline      *time.Time `json:"deadline,omitempty"`
	Usage         *usage     `json:"usage,omitempty"`

	// These have content.
	Message string          `json:"message,omitempty"` // of an error, or the reason of a decision
	Input   json.RawMessage `json:"input,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
}

// usage is that of a run that has ended.
type usage struct {
	InputTokens     *int64 `json:"inputTokens,omitempty"`
	OutputTokens    *int64 `json:"outputTokens,omitempty"`
	CachedTokens    *int64 `json:"cachedTokens,omitempty"`
	ReasoningTokens *int64 `json:"reasoningTokens,omitempty"`
	Cost            string `json:"cost,omitempty"` // a decimal number
	Currency        string `json:"currency,omitempty"`
	Steps           *int64 `json:"steps,omitempty"`
	ToolCalls       *int64 `json:"toolCalls,omitempty"`
	FailedToolCalls *int64 `json:"failedToolCalls,omitempty"`
}

// eventOf returns the event of a row as JSON.
func eventOf(r export.Row) ([]byte, error) {
	p := r.Place()
	session := chunk.Session{Tenant: p.Tenant, Root: p.Root, ID: p.Session}
	e := event{SpecVersion: "1.0", ID: r.Key(), Source: session.String(), Type: typeOf(r), Time: p.StoredAt, DataContentType: "application/json"}
	e.Data = data{Tenant: p.Tenant, Root: p.Root, Session: p.Session, Sequence: p.Seq}
	if o := r.Observation; o != nil {
		e.Data.add(o)
	}
	return json.Marshal(e)
}

func (d *data) add(o *row.Observation) {
	d.ID, d.ParentID, d.TraceID, d.SpanID = o.ID, o.ParentID, o.TraceID, o.SpanID
	d.AgentType, d.RunID, d.TurnID = o.AgentType, o.RunID, o.TurnID
	d.ParentSession, d.ParentCallID, d.UserID, d.UserIssuer = o.ParentSession, o.ParentCallID, o.UserID, o.UserIssuer
	d.ToolName, d.ToolCallID = o.ToolName, o.ToolCallID
	d.Status, d.ErrorCode, d.FinishReason = o.Status, o.ErrorCode, o.FinishReason
	d.StartedAt, d.EndedAt, d.DurationMS = &o.StartTime, o.EndTime, o.DurationMS
	d.Approved, d.Automatic, d.Deadline = o.Approved, o.DecidedAutomatically, o.Deadline
	d.Message, d.Input, d.Output = o.StatusMessage, json.RawMessage(o.Input), json.RawMessage(o.Output)
	if o.Kind != row.Run || o.EndTime == nil {
		return
	}
	d.Usage = &usage{
		InputTokens: o.InputTokens, OutputTokens: o.OutputTokens, CachedTokens: o.CachedTokens, ReasoningTokens: o.ReasoningTokens,
		Currency: o.Currency, Steps: o.Steps, ToolCalls: o.ToolCalls, FailedToolCalls: o.FailedToolCalls,
	}
	if o.Cost != nil {
		d.Usage.Cost = decimal(*o.Cost)
	}
}
