package aisdk

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Content says what a chat gets of the content of sub-agents. Their beginning
// and end, their custom events and errors, their approvals and the calls that
// the client must run are told in any case: a person must answer those.
type Content int

// The contents. Drop is the default: the stored message holds none of it, so
// what was shown would vanish with the next reload.
const (
	Drop   Content = iota
	Inline         // as parts of the message, under ids of their own
	Data           // as transient data-subagent-chunk {subSessionId, chunk}
)

// CodeAborted is the code in the detail of a stream_failed that says that a
// person stopped the run for good. It is shown as abort, not as an error.
const CodeAborted = "aborted"

// Options of a Message. The zero Options speak to every client of the major
// versions 6 and 7.
type Options struct {
	// Major 7 also uses what only that version knows: tool-approval-response,
	// reset-step, the finish reason interrupted, the reason of an abort. Anything
	// else is portable.
	Major int

	SubAgents Content

	// NoSteps leaves out start-step and finish-step. Clients that post again by
	// themselves when a tool is answered then do so without end.
	NoSteps bool

	// ClientTool reports whether the browser runs a tool; nil: it runs none. A
	// member "providerExecuted" in the record that begins the call goes before it.
	ClientTool func(name string) bool

	// StartMetadata, StepMetadata and FinishMetadata give the messageMetadata of
	// the first chunk, after each step and of the last chunk: a JSON object, nil
	// for none. The client merges them.
	StartMetadata, StepMetadata, FinishMetadata func(Meta) chunk.Value

	// ErrorText is what a person reads of an error that ends the message; nil
	// shows the text of the record.
	ErrorText func(Failure) string

	// Filter reports whether a chunk is told at all; nil: all are. It is asked
	// before anything else happens. Records about the stream are not chunks.
	Filter func(chunk.Record) bool

	// Unknown is told the first record of each type that has no place in this
	// dialect.
	Unknown func(chunk.Type)
}

// Static is metadata that is always the same.
func Static(v chunk.Value) func(Meta) chunk.Value { return func(Meta) chunk.Value { return v } }

// Failure is an error that ends a message.
type Failure struct {
	Text string // of the record
	Code string // "" for none
}

// Meta is what a Message knows when it computes metadata. At the start that may
// be the id alone: Start can be called before the run has begun.
type Meta struct {
	MessageID string
	Session   chunk.Session
	AgentType string
	RunID     string
	Began     time.Time // when the log stored the first record
	At        time.Time // when it stored the latest
	Steps     int       // that ended

	InputTokens, OutputTokens, CachedTokens, CacheWriteTokens int64 // of those steps

	FinishReason string // of the last chunk, "" before
}

// finishReasons are those that every client knows.
var finishReasons = map[string]bool{
	"stop": true, "length": true, "content-filter": true, "tool-calls": true, "error": true, "other": true,
}

func (o *Options) reason(r string) string {
	if finishReasons[r] || o.Major >= 7 && r == reasonInterrupted {
		return r
	}
	return reasonOther
}

const (
	reasonStop        = "stop"
	reasonToolCalls   = "tool-calls"
	reasonError       = "error"
	reasonOther       = "other"
	reasonInterrupted = "interrupted"
)
