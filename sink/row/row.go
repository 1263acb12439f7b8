// Package row defines the rows that a sink writes, and the interface of the stores that keep them. The structs of this package are the only definition of the
// tables: stores derive their schemas from the tags.
package row

import (
	"cmp"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Event is a record of the log. Its key is (StreamEpoch, Partition, Seq).
type Event struct {
	Place

	Epoch     int64     `parquet:"epoch"`                       // number of the writer of the record
	Ordinal   int64     `parquet:"ordinal"`                     // number of the record in its session
	Type      string    `parquet:"type,dict"`                   // type of the record, also one that the sink does not know
	Time      time.Time `parquet:"time,timestamp(microsecond)"` // at which its writer wrote it
	AgentType string    `parquet:"agent_type,optional,dict"`    // of the session
	Step      int64     `parquet:"step"`                        // of the run, from 1; 0 is outside of steps
	RunID     string    `parquet:"run_id,optional"`             // run that wrote it; null if it is unknown
	TurnID    string    `parquet:"turn_id,optional"`            // id of the run that opened the turn of the root session
	TraceID   string    `parquet:"trace_id,optional"`           // 32 hex digits, one for each turn of the root session
	Fenced    bool      `parquet:"fenced"`                      // a record of a superseded writer: stored, without effect
	Bytes     int64     `parquet:"bytes"`                       // of the body in the log, as JSON
	Body      JSON      `parquet:"body,optional"`               // members of the record that the view shows; null without content
}

// Place is where a row was written: the record that caused it.
type Place struct {
	StreamEpoch string    `parquet:"stream_epoch,dict"`                // history of the log; a suffix such as .2 if it was rolled back without a new epoch
	Partition   int32     `parquet:"partition"`                        // partition of the log
	Seq         int64     `parquet:"seq"`                              // stream sequence of the record that caused the row
	StoredAt    time.Time `parquet:"stored_at,timestamp(microsecond)"` // time of that record, by the clock of the server
	Tenant      string    `parquet:"tenant,dict"`                      // owner of the session
	Root        string    `parquet:"root"`                             // session at the top of the tree
	Session     string    `parquet:"session"`                          // session of the record: the root, or a sub-agent
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

	ID           string `parquet:"id"`                      // 32 hex digits, a function of the first record
	ParentID     string `parquet:"parent_id,optional"`      // of a run: the call of the parent; of a step: the run; of a call: the step; of a wait: the call
	TraceID      string `parquet:"trace_id"`                // 32 hex digits, one for each turn of the root session
	SpanID       string `parquet:"span_id"`                 // 16 hex digits
	ParentSpanID string `parquet:"parent_span_id,optional"` // of the parent

	Kind   Kind   `parquet:"kind,dict"`   // run, step, tool, approval or client_tool
	Type   string `parquet:"type,dict"`   // of Langfuse: AGENT, GENERATION, TOOL, SPAN
	Name   string `parquet:"name,dict"`   // agent type, model, tool, or approval and its tool
	Status Status `parquet:"status,dict"` // see below

	Level         string `parquet:"level,dict"`               // DEFAULT or ERROR
	StatusMessage string `parquet:"status_message,optional"`  // text of the error; content
	ErrorCode     string `parquet:"error_code,optional,dict"` // code of the error

	StartTime           time.Time  `parquet:"start_time,timestamp(microsecond)"`            // by the clock of the writer, as all times but stored_at
	CompletionStartTime *time.Time `parquet:"completion_start_time,timestamp(microsecond)"` // first token of a step
	EndTime             *time.Time `parquet:"end_time,timestamp(microsecond)"`              // null while it is running or waiting
	TimeToFirstTokenMS  *int64     `parquet:"time_to_first_token_ms"`                       // from the start of a step to its first token; null if the clock went backwards
	DurationMS          *int64     `parquet:"duration_ms"`                                  // from start to end; null if the clock went backwards

	SessionID     string `parquet:"session_id"`                // the root, as gen_ai.conversation.id
	UserID        string `parquet:"user_id,optional"`          // user that started the run; of a sub-agent, the run of the root
	UserIssuer    string `parquet:"user_issuer,optional,dict"` // issuer of the credential of the user
	AgentType     string `parquet:"agent_type,optional,dict"`  // of the session
	RunID         string `parquet:"run_id,optional"`           // run that it belongs to
	TurnID        string `parquet:"turn_id,optional"`          // id of the run that opened the turn of the root session
	Step          int64  `parquet:"step"`                      // number of the step in the run
	ParentSession string `parquet:"parent_session,optional"`   // of a sub-agent: the session that called it
	ParentCallID  string `parquet:"parent_call_id,optional"`   // of a sub-agent: the call
	Depth         int64  `parquet:"depth"`                     // 0 is the root session

	Provider         string `parquet:"provider,optional,dict"`      // of the model, as gen_ai.provider.name
	RequestModel     string `parquet:"request_model,optional,dict"` // model that was asked for, if another one answered
	Model            string `parquet:"model,optional,dict"`         // model that answered
	InputTokens      *int64 `parquet:"input_tokens"`                // of a step; of a run the sum of its committed steps, as all tokens and the cost
	OutputTokens     *int64 `parquet:"output_tokens"`               // with those of reasoning
	CachedTokens     *int64 `parquet:"cached_tokens"`               // part of input_tokens that was read from a cache
	CacheWriteTokens *int64 `parquet:"cache_write_tokens"`          // part of input_tokens that was written to a cache
	ReasoningTokens  *int64 `parquet:"reasoning_tokens"`            // part of output_tokens
	Cost             *Money `parquet:"cost,decimal(9:18)"`          // null without a reported cost and without a price
	Currency         string `parquet:"currency,optional,dict"`      // of the cost
	CostSource       string `parquet:"cost_source,optional,dict"`   // reported or list

	FinishReason    string `parquet:"finish_reason,optional,dict"` // why the model stopped; of a run, that of its last step
	Mode            string `parquet:"mode,optional,dict"`          // of a run: mode of run_started
	Attempts        *int64 `parquet:"attempts"`                    // of a run: 1 and its takeovers
	Steps           *int64 `parquet:"steps"`                       // of a run: committed steps
	ToolCalls       *int64 `parquet:"tool_calls"`                  // of a run
	FailedToolCalls *int64 `parquet:"failed_tool_calls"`           // of a run

	ToolName             string     `parquet:"tool_name,optional,dict"`         // of a call or a wait
	ToolCallID           string     `parquet:"tool_call_id,optional"`           // of a call or a wait
	ProviderExecuted     *bool      `parquet:"provider_executed"`               // of a call: it was not run by a client
	Approved             *bool      `parquet:"approved"`                        // of an approval: the decision
	DecidedAutomatically *bool      `parquet:"decided_automatically"`           // of an approval: a rule decided
	Deadline             *time.Time `parquet:"deadline,timestamp(microsecond)"` // of a wait

	Input            JSON   `parquet:"input,optional"`    // of a run the messages of the user, of a call and its waits the arguments; content
	Output           JSON   `parquet:"output,optional"`   // of a run its output or last text, of a step text and calls, of a call its result, of an approval the decision; content
	InputBytes       *int64 `parquet:"input_bytes"`       // before the view
	OutputBytes      *int64 `parquet:"output_bytes"`      // before the view
	ContentTruncated bool   `parquet:"content_truncated"` // input or output was longer than a row holds
	Metadata         JSON   `parquet:"metadata,optional"` // members that the schema does not have

	FirstSeq     int64 `parquet:"first_seq"`     // stream sequence of its first record
	FirstOrdinal int64 `parquet:"first_ordinal"` // number of its first record in the session
	LastOrdinal  int64 `parquet:"last_ordinal"`  // number of its last record in the session
	Incomplete   bool  `parquet:"incomplete"`    // the log had lost the beginning
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
	Malformed Reason = "malformed" // the message at FromSeq is not a record, or its rows cannot be computed
	Removed   Reason = "removed"   // a cleanup removed FromOrdinal to ToOrdinal of Session
	Recreated Reason = "recreated" // the log has lost FromSeq to ToSeq of StreamEpoch: it was restored from a backup, or created again
	Deleted   Reason = "deleted"   // Session was deleted, or the whole tree if Session is Root: its rows through Seq are erased
)

// Gap says which records are missing, or no longer count. Its key is (StreamEpoch, Partition, Seq, Reason, FromOrdinal).
type Gap struct {
	Place

	Reason      Reason `parquet:"reason,dict"`     // see below
	FromSeq     *int64 `parquet:"from_seq"`        // range of stream sequences
	ToSeq       *int64 `parquet:"to_seq"`          // its end, inclusive
	FromOrdinal int64  `parquet:"from_ordinal"`    // range of ordinals of the session; 0 for gaps that are not of ordinals
	ToOrdinal   int64  `parquet:"to_ordinal"`      // its end, inclusive
	Detail      string `parquet:"detail,optional"` // what is known of the cause
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

// Loses reports whether g says that the log has lost the record of a row.
func (g *Gap) Loses(p *Place) bool {
	return g.Reason == Recreated && g.StreamEpoch == p.StreamEpoch && g.Partition == p.Partition &&
		(g.FromSeq == nil || *g.FromSeq <= p.Seq) && (g.ToSeq == nil || p.Seq <= *g.ToSeq)
}

// SessionOf returns the session of an id in a tree, and the root without one.
func SessionOf(tenant, root, id string) chunk.Session {
	return chunk.RootSession(tenant, root).Child(cmp.Or(id, root))
}

// DeletionThrough is the gap of a session that is erased without a deletion record: through is the place of its last row.
func DeletionThrough(through Place) Gap {
	return Gap{Place: through, Reason: Deleted, ToSeq: &through.Seq}
}

// IsAfter reports whether the record of p was stored after that of q. In one history the sequence decides: the next leader of the stream may have an earlier clock.
func (p *Place) IsAfter(q *Place) bool {
	if p.StreamEpoch == q.StreamEpoch && p.Partition == q.Partition {
		return p.Seq > q.Seq
	}
	return p.StoredAt.After(q.StoredAt) || p.StoredAt.Equal(q.StoredAt) && p.Seq > q.Seq
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
