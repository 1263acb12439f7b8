// Package row defines the rows that a sink writes, and the interface of the stores that keep them. The structs of this package are the only definition of the
// tables: stores derive their schemas from the tags.
package row

import (
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Event is a record of the log. Its key is (StreamEpoch, Partition, Seq).
type Event struct {
	Place

	Epoch     int64     `parquet:"epoch"`
	Ordinal   int64     `parquet:"ordinal"`
	Type      string    `parquet:"type,dict"` // also of types that this build does not know
	Time      time.Time `parquet:"time,timestamp(microsecond)"`
	AgentType string    `parquet:"agent_type,optional,dict"`
	Step      int64     `parquet:"step"`
	RunID     string    `parquet:"run_id,optional"`
	TurnID    string    `parquet:"turn_id,optional"`
	TraceID   string    `parquet:"trace_id,optional"`
	Fenced    bool      `parquet:"fenced"` // a record of a superseded writer: stored, without effect
	Bytes     int64     `parquet:"bytes"`  // of the body in the log, as JSON
	Body      JSON      `parquet:"body,optional"`
}

// Place is where a row was written: the record that caused it.
type Place struct {
	StreamEpoch string    `parquet:"stream_epoch,dict"` // history of the log, see Position.History
	Partition   int32     `parquet:"partition"`
	Seq         int64     `parquet:"seq"`                              // stream sequence
	StoredAt    time.Time `parquet:"stored_at,timestamp(microsecond)"` // by the clock of the server
	Tenant      string    `parquet:"tenant,dict"`
	Root        string    `parquet:"root"`
	Session     string    `parquet:"session"`
}

// Kind is what an Observation is about.
type Kind string

// The kinds of observations.
const (
	Run        Kind = "run"
	Step       Kind = "step"
	Tool       Kind = "tool"
	Approval   Kind = "approval"    // a wait for a decision
	ClientTool Kind = "client_tool" // a wait for a tool that the client runs
)

// Status is the state of an Observation.
type Status string

// The states of observations. Running and Waiting may change; the others are final, except Suspended: the run may continue, and then its row is written again.
const (
	Running     Status = "running"
	Waiting     Status = "waiting"
	Completed   Status = "completed"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
	Suspended   Status = "suspended"
	Superseded  Status = "superseded"
	Abandoned   Status = "abandoned"
	Denied      Status = "denied"
	Rejected    Status = "rejected"
	Unknown     Status = "unknown"
)

// Observation is a run, a step, a call of a tool or a wait, with the attributes of its turn. Its key is ID. Of several rows with the same ID the one with the
// highest Seq counts.
type Observation struct {
	Place

	ID           string `parquet:"id"`                 // 32 hex digits, a function of the first record
	ParentID     string `parquet:"parent_id,optional"` // of a run: the call of the parent; of a step: the run; of a call: the step; of a wait: the call
	TraceID      string `parquet:"trace_id"`           // 32 hex digits, one for each turn of the root session
	SpanID       string `parquet:"span_id"`            // 16 hex digits
	ParentSpanID string `parquet:"parent_span_id,optional"`

	Kind   Kind   `parquet:"kind,dict"`
	Type   string `parquet:"type,dict"` // of Langfuse: AGENT, GENERATION, TOOL, SPAN
	Name   string `parquet:"name,dict"`
	Status Status `parquet:"status,dict"`

	Level         string `parquet:"level,dict"` // DEFAULT or ERROR
	StatusMessage string `parquet:"status_message,optional"`
	ErrorCode     string `parquet:"error_code,optional,dict"`

	StartTime           time.Time  `parquet:"start_time,timestamp(microsecond)"`
	CompletionStartTime *time.Time `parquet:"completion_start_time,timestamp(microsecond)"`
	EndTime             *time.Time `parquet:"end_time,timestamp(microsecond)"`
	TimeToFirstTokenMS  *int64     `parquet:"time_to_first_token_ms"`
	DurationMS          *int64     `parquet:"duration_ms"`

	SessionID     string `parquet:"session_id"` // the root, as gen_ai.conversation.id
	UserID        string `parquet:"user_id,optional"`
	UserIssuer    string `parquet:"user_issuer,optional,dict"`
	AgentType     string `parquet:"agent_type,optional,dict"`
	RunID         string `parquet:"run_id,optional"`
	TurnID        string `parquet:"turn_id,optional"` // id of the run that opened the turn of the root session
	Step          int64  `parquet:"step"`
	ParentSession string `parquet:"parent_session,optional"`
	ParentCallID  string `parquet:"parent_call_id,optional"`
	Depth         int64  `parquet:"depth"` // 0 is the root session

	Provider         string `parquet:"provider,optional,dict"`
	RequestModel     string `parquet:"request_model,optional,dict"`
	Model            string `parquet:"model,optional,dict"`
	InputTokens      *int64 `parquet:"input_tokens"`
	OutputTokens     *int64 `parquet:"output_tokens"`
	CachedTokens     *int64 `parquet:"cached_tokens"`
	CacheWriteTokens *int64 `parquet:"cache_write_tokens"`
	ReasoningTokens  *int64 `parquet:"reasoning_tokens"`
	Cost             *Money `parquet:"cost,decimal(9:18)"`
	Currency         string `parquet:"currency,optional,dict"`
	CostSource       string `parquet:"cost_source,optional,dict"` // reported or list

	FinishReason    string `parquet:"finish_reason,optional,dict"`
	Mode            string `parquet:"mode,optional,dict"`
	Attempts        *int64 `parquet:"attempts"` // of a run: 1 and its takeovers
	Steps           *int64 `parquet:"steps"`
	ToolCalls       *int64 `parquet:"tool_calls"`
	FailedToolCalls *int64 `parquet:"failed_tool_calls"`

	ToolName             string     `parquet:"tool_name,optional,dict"`
	ToolCallID           string     `parquet:"tool_call_id,optional"`
	ProviderExecuted     *bool      `parquet:"provider_executed"`
	Approved             *bool      `parquet:"approved"`
	DecidedAutomatically *bool      `parquet:"decided_automatically"`
	Deadline             *time.Time `parquet:"deadline,timestamp(microsecond)"`

	Input            JSON   `parquet:"input,optional"`
	Output           JSON   `parquet:"output,optional"`
	InputBytes       *int64 `parquet:"input_bytes"` // before the view
	OutputBytes      *int64 `parquet:"output_bytes"`
	ContentTruncated bool   `parquet:"content_truncated"`
	Metadata         JSON   `parquet:"metadata,optional"` // members that the schema does not have

	FirstSeq     int64 `parquet:"first_seq"`
	FirstOrdinal int64 `parquet:"first_ordinal"`
	LastOrdinal  int64 `parquet:"last_ordinal"`
	Incomplete   bool  `parquet:"incomplete"` // the log had lost the beginning
}

// JSON is a JSON value as text, "" is none. Its column in Parquet is a text: parquet-go v0.32.0 fails to write an optional column with the logical type JSON.
type JSON string

// Money is an amount of a currency in units of 0.000000001.
type Money int64

// Reason is why records are missing, or no longer count.
type Reason string

// The reasons of gaps.
const (
	Expired   Reason = "expired"   // retention had removed FromSeq to ToSeq before they were read
	Missing   Reason = "gap"       // the log has lost FromOrdinal to ToOrdinal of Session
	Malformed Reason = "malformed" // the message at FromSeq is not a record
	Removed   Reason = "removed"   // a cleanup removed FromOrdinal to ToOrdinal of Session
	Recreated Reason = "recreated" // the log has lost FromSeq to ToSeq of StreamEpoch: it was restored from a backup, or created again
	Deleted   Reason = "deleted"   // Session was deleted, or the whole tree if Session is Root: its rows through Seq are erased
)

// Gap says which records are missing, or no longer count. Its key is (StreamEpoch, Partition, Seq, Reason, FromOrdinal).
type Gap struct {
	Place

	Reason      Reason `parquet:"reason,dict"`
	FromSeq     *int64 `parquet:"from_seq"`
	ToSeq       *int64 `parquet:"to_seq"`
	FromOrdinal int64  `parquet:"from_ordinal"` // 0 for gaps that are not of ordinals
	ToOrdinal   int64  `parquet:"to_ordinal"`
	Detail      string `parquet:"detail,optional"`
}

// Erases reports whether the rows of a session are erased, as far as they were written at or before g.Seq.
func (g *Gap) Erases() bool { return g.Reason == Deleted }

// Covers reports whether a deletion erases a row. It erases rows of its own history up to its sequence, and rows of other histories whose record was stored before
// the deletion.
func (g *Gap) Covers(p *Place) bool {
	if !g.Erases() || g.Tenant != p.Tenant || g.Root != p.Root || g.Partition != p.Partition || g.Session != g.Root && g.Session != p.Session {
		return false
	}
	if g.StreamEpoch != p.StreamEpoch {
		return !p.StoredAt.After(g.StoredAt)
	}
	through := g.Seq
	if g.ToSeq != nil {
		through = *g.ToSeq
	}
	return p.Seq <= through
}

// Text returns s as stores accept it: valid UTF-8 without U+0000, which becomes U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// PlaceOf is the place of a record in the partition and history of a position.
func PlaceOf(at Position, rec chunk.Record) Place {
	return Place{
		StreamEpoch: at.History, Partition: int32(at.Partition), Seq: int64(rec.Seq), StoredAt: rec.StoredAt.UTC(),
		Tenant: rec.Session.Tenant, Root: Text(rec.Session.Root), Session: Text(rec.Session.ID),
	}
}
