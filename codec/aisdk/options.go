package aisdk

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// SubAgentContent selects how the output of sub-agents is written. Their start and end, custom events, errors, approvals and the calls that the client runs
// are always written.
type SubAgentContent int

// The values of SubAgentContent. Drop is the default: the log of the session does not have this output, so a page that loads only the fold of the session does
// not show it.
const (
	Drop   SubAgentContent = iota
	Inline                 // as parts of the message, under ids of their own; a snapshot has them too, see SnapshotOptions.SubAgents
	Data                   // as transient data-subagent-chunk {subSessionId, chunk}
)

// CodeAborted is the code in the detail of a stream_failed of a run that a user stopped permanently. It is shown as abort, not as an error.
const CodeAborted = "aborted"

// Options configures a MessageWriter. The zero value works with all clients of the major versions 6 and 7.
type Options struct {
	// Major 7 also uses what only that version supports: tool-approval-response, reset-step, the finish reason interrupted, the reason of an abort. Any
	// other value writes what both versions support.
	Major int

	SubAgents SubAgentContent

	// NoSteps leaves out start-step and finish-step. Clients that post automatically after a tool result then do so indefinitely.
	NoSteps bool

	// ClientTool reports whether the browser runs a tool; nil: it runs none. A member "providerExecuted" in the record that starts the call takes precedence.
	ClientTool func(name string) bool

	// Earlier are calls of earlier messages, whose outcomes are not of this one.
	Earlier []string

	// StartMetadata, StepMetadata and FinishMetadata return the messageMetadata of the first chunk, after each step and of the last chunk: a JSON object, nil
	// for none. The client merges them.
	StartMetadata, StepMetadata, FinishMetadata func(Meta) chunk.Value

	// ErrorText returns the text that users see for an error that ends the message. Default: the text of the record.
	ErrorText func(Failure) string
}

// Failure is an error that ends a message.
type Failure struct {
	Text string // of the record
	Code string // "" for none
}

// Meta is the input of metadata functions. At the start it may have the id alone: Start can be called before the run has begun.
type Meta struct {
	MessageID string
	Session   chunk.Session
	AgentType string
	RunID     string
	StartedAt time.Time // when the log stored the first record
	LastAt    time.Time // when it stored the latest
	Steps     int       // that ended

	InputTokens, OutputTokens, CachedTokens, CacheWriteTokens int64 // of those steps

	FinishReason string // of the last chunk, "" before
}

// finishReasons has the reasons that all clients accept.
var finishReasons = map[string]bool{
	"stop": true, "length": true, "content-filter": true, "tool-calls": true, "error": true, "other": true,
}

func (o *Options) reason(r string) string {
	if finishReasons[r] || o.Major >= 7 && r == reasonInterrupted {
		return r
	}
	return dialect.ReasonOther
}

const reasonInterrupted = "interrupted"

// Header returns the headers of a response, in addition to those that the server sets. no-transform and X-Accel-Buffering keep proxies from buffering
// frames.
func Header() map[string]string {
	return map[string]string{
		"Content-Type":                  "text/event-stream",
		"X-Vercel-AI-UI-Message-Stream": "v1",
		"Cache-Control":                 "no-cache, no-transform",
		"X-Accel-Buffering":             "no",
	}
}
