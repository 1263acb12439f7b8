package agui

import "github.com/tailrace/tailrace/chunk"

// Options configures New. The zero value fits a client that follows one session.
type Options struct {
	// State is the custom state of the session before the turn. It is written after RUN_STARTED as STATE_SNAPSHOT, so that the changes of the turn apply to it also
	// in a client that has not loaded a snapshot. Nil if it is not known, or must not be read: then clients without it reject changes. That of a session without a
	// state, {}, is not written: a client may begin with one of its own.
	State chunk.Value

	// SubAgents writes the text, the reasoning, the calls and the steps of sub-agents too, under their subagentRunId. Without it, only their start and end,
	// custom events, errors, approvals and the calls that the client runs are written: a snapshot of the session does not have the rest either.
	SubAgents bool

	// ClientTool reports whether the client runs a tool that a sub-agent calls; nil: it runs none. It is not needed for the calls of the session itself: when
	// the run pauses, those without an outcome wait for the client.
	ClientTool func(name string) bool

	// Omit has calls, by their ids in the messages, whose results are left out: the client ran them, sent the results and has them as messages of its own, which the
	// client of AG-UI would show a second time. They are the Results of a RunInput. Other clients of the session get them.
	Omit []string
}

// ProtocolVersion is the version of the protocol that a Writer writes, as RUN_STARTED has it.
const ProtocolVersion = "1.0"

// LifecyclePrefix begins the names of CUSTOM events that are not of the application: records about the run that the protocol has no event for, such as
// tailrace.checkpoint_created. The rest of the name is the type of the record.
const LifecyclePrefix = "tailrace."

// Types of activity messages, which have what the protocol has no other message for.
const (
	ActivityFile       = "file"            // content {url, mediaType, filename?}
	ActivitySource     = "source"          // content {sourceId, url?, title?, mediaType?, filename?}
	ActivityStructured = "structured-data" // content {id, data}
)

var null = chunk.Value("null")
