package chat

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
)

// Path says which way a request goes, for tests and logs.
type Path string

// The paths, spec/helix.md section 6.6. Those with a store or a command are steps:
// when one is done the chat is looked at again and the request decided anew.
const (
	PathRefused   Path = "refused"
	PathNothing   Path = "nothing"   // 204
	PathSweep     Path = "sweep"     // expired calls get their answer, D2
	PathExecute   Path = "execute"   // 1 and 2
	PathSubmit    Path = "submit"    // 3: answers are stored
	PathAbandon   Path = "abandon"   // 4: unanswered calls are failed
	PathResume    Path = "resume"    // 3: the run goes on
	PathAttach    Path = "attach"    // 5
	PathReplay    Path = "replay"    // 6
	PathUpToDate  Path = "upToDate"  // 6, by a client that has it all: an empty turn
	PathRejection Path = "rejection" // 7
)

// Plan is what to do next for a request: store answers, or put one command on the
// queue, or say something. Of the fields behind Path one is set, but for
// PathNothing none.
type Plan struct {
	Path Path

	// Store are answers to store. That somebody was faster is a conflict if Submit
	// is the path, and nothing otherwise.
	Store []inbox.Answer

	// Command is to be requested behind the revision After.
	Command *commands.Command
	After   commands.Revision

	Refusal *Problem
	Stream  *Stream
}

// Stream is an answer as a stream.
type Stream struct {
	MessageID string // "" for none: what is rejected belongs to no message
	Show      Show
	After     chunk.Seq // of ShowTail: the last event that the client has
	Steps     int       // of ShowNew: how many steps the client has begun to show

	// Run is the run that the stream waits for, "" when it is there: until its
	// run_started the chat may stand still.
	Run string

	Rejected []Rejection

	ahead *ahead // the log behind the view, if somebody follows it already
}

// Show says what of a message a stream shows.
type Show int

// What a stream shows.
const (
	// ShowWhole is the message from its start: for a client that has nothing of it.
	ShowWhole Show = iota

	// ShowTail is what follows a cursor inside the message, without start: for a
	// client that has the rest under the same part ids.
	ShowTail

	// ShowNew is start and what the client's own message has not: for a POST that
	// continues it.
	ShowNew

	// ShowNothing is start and finish.
	ShowNothing
)

// Rejection is an answer that is not taken, spec/helix.md section 6.7.
type Rejection struct {
	Reason       Reason     `json:"reason"`
	ToolCallID   string     `json:"toolCallId,omitempty"`
	ApprovalID   string     `json:"approvalId,omitempty"`
	Kind         inbox.Kind `json:"kind,omitempty"`
	Message      string     `json:"message,omitempty"`
	CurrentRunID string     `json:"currentRunId,omitempty"`
}

// Reason is why an answer is not taken.
type Reason string

// The reasons.
const (
	StaleRun         Reason = "stale-run-id"
	UnknownCall      Reason = "unknown-tool-call"
	AlreadyResolved  Reason = "already-resolved"
	KindMismatch     Reason = "kind-mismatch"
	ApprovalMismatch Reason = "approval-id-mismatch"
	Expired          Reason = "expired"
)

var sentences = map[Reason]string{
	StaleRun:         "this answer is to a question of an earlier run",
	UnknownCall:      "nothing waits for this answer",
	AlreadyResolved:  "this question was answered already",
	KindMismatch:     "this question wants another kind of answer",
	ApprovalMismatch: "this is not the approval that is waited for",
	Expired:          "the time for this answer is over",
}
