package aisdk

import "github.com/tailrace/tailrace/internal/dialect"

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

	// ClientTool reports whether the browser runs a tool; nil: it runs none. A member "providerExecuted" in the record that starts the call takes precedence.
	ClientTool func(name string) bool

	// Earlier are calls of earlier messages, whose outcomes are not of this one.
	Earlier []string
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
