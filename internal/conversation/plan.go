package conversation

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// Path names the plan for a request, for tests and logs.
type Path string

// The paths, docs/protocol/chat.md#helix-6.6. Plans with answers or a command are steps: when one is done the state is loaded and the request decided again.
const (
	PathRefused     Path = "refused"
	PathNoContent   Path = "nothing"   // 204
	PathExpireCalls Path = "sweep"     // expired calls get their answer, D2
	PathExecute     Path = "execute"   // 1 and 2
	PathSubmit      Path = "submit"    // 3: answers are stored
	PathAbandon     Path = "abandon"   // 4: unanswered calls are failed
	PathEndRun      Path = "endRun"    // a run without a worker is failed
	PathResume      Path = "resume"    // 3: the run continues
	PathQueue       Path = "queue"     // a message is stored that waits until the run ends
	PathStartQueued Path = "start"     // the run of a message that has waited is requested
	PathQueued      Path = "queued"    // the response waits with its message
	PathAttach      Path = "attach"    // 5
	PathReplay      Path = "replay"    // 6
	PathUpToDate    Path = "upToDate"  // 6, for a client that has all of it: an empty turn
	PathRejection   Path = "rejection" // 7
)

// Plan is the next step for a request: answers to store, one command for the queue, or the response. One of the fields after Path is set; PathNoContent has none.
type Plan struct {
	Path Path

	// Store has answers to store. If another answer was first, that is a conflict if the path is PathSubmit, and ignored otherwise.
	Store []control.Answer

	// Command is to be requested with CommandRevision as the expected revision.
	Command *control.Command
	After   control.Revision

	// EndRun requests that the latest run, which has no worker, is failed.
	EndRun bool

	// Queued is a message to store or, if the path is PathStartQueued, the one whose run is to be requested.
	Queued *control.Queued

	Refusal *Refusal
	Stream  *Stream
}

// isFinal reports whether the plan is the response and not a step.
func (p *Plan) isFinal() bool {
	return p.Store == nil && p.Command == nil && p.Queued == nil && !p.EndRun
}

// Stream is an answer as a stream.
type Stream struct {
	MessageID string // "" for none: the rejected answer belongs to no message
	Show      Show
	After     chunk.Seq    // of ShowTail: the last event that the client has
	Anchor    chunk.Anchor // of After, 0 if it is checked
	Steps     int          // of ShowNew: number of steps that the client has shown
	Decided   []string     // of ShowNew: calls that the client shows with a decision and without an outcome, under the client's ids

	// Run is the run that the stream waits for, "" if it has started: the state may change before its run_started.
	Run string

	// Queued reports that the message of Run waits in the inbox, so that the id of the answer is not known.
	Queued bool

	Rejected []Rejection

	Ahead Ahead // what Request.OnExecute returned, nil for none
}

// Show selects the part of a message that a stream shows.
type Show int

// What a stream shows.
const (
	// ShowWhole is the message from its start, for a client that has no part of it.
	ShowWhole Show = iota

	// ShowTail is the part after a cursor inside the message, without start, for a client that has the rest under the same part ids.
	ShowTail

	// ShowNew is start and the part that the client's own message does not have, for a POST that continues it.
	ShowNew

	// ShowEmpty is start and finish.
	ShowEmpty
)

// Rejection is a rejected answer, docs/protocol/chat.md#helix-6.7.
type Rejection struct {
	Reason       RejectionReason    `json:"reason"`
	ToolCallID   string             `json:"toolCallId,omitempty"`
	ApprovalID   string             `json:"approvalId,omitempty"`
	Kind         control.AnswerKind `json:"kind,omitempty"`
	Message      string             `json:"message,omitempty"`
	CurrentRunID string             `json:"currentRunId,omitempty"`
}

// RejectionReason is the reason of a Rejection.
type RejectionReason string

// The reasons.
const (
	StaleRun         RejectionReason = "stale-run-id"
	UnknownCall      RejectionReason = "unknown-tool-call"
	AlreadyResolved  RejectionReason = "already-resolved"
	KindMismatch     RejectionReason = "kind-mismatch"
	ApprovalMismatch RejectionReason = "approval-id-mismatch"
	InputMismatch    RejectionReason = "input-mismatch"
	Expired          RejectionReason = "expired"
)

// RejectionTexts are the sentences for users.
var RejectionTexts = map[RejectionReason]string{
	StaleRun:         "this answer is to a question of an earlier run",
	UnknownCall:      "nothing waits for this answer",
	AlreadyResolved:  "this question was answered already",
	KindMismatch:     "this question wants another kind of answer",
	ApprovalMismatch: "this is not the approval that is waited for",
	InputMismatch:    "the call has another input than the one that was shown",
	Expired:          "the time for this answer is over",
}
