package control

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// AnswerKind is the kind of the answered call.
type AnswerKind string

// The kinds of answers.
const (
	// ClientResult is the result of a tool that runs in the client, or, with Error, its failure.
	ClientResult AnswerKind = "client-tool-result"

	// Approval is a user's decision about a call that needs approval. With Error there is no decision: the call was abandoned, or its deadline passed.
	Approval AnswerKind = "approval-response"

	// SubagentResult is the result of a sub-agent. Its worker stores it.
	SubagentResult AnswerKind = "subagent-result"
)

// Limits of an Answer and a Stop.
const (
	// MaxAnswerID limits the ids of calls, the names of tools and codes, in characters.
	MaxAnswerID = 256

	// MaxApprovalID limits the id of an approval, which consists of the ids of a run and a call with "::" between.
	MaxApprovalID = subjects.MaxToken + 2 + MaxAnswerID

	// MaxError limits an Error and a Reason in bytes.
	MaxError = 8 << 10

	// MaxResult limits a Result in bytes of JSON. The result becomes part of one record of the log, tool_end, which has at most 512 KiB; 16 KiB of that are
	// reserved for the other members of the record, whose ids alone may have 256 characters of up to 12 bytes each. A larger result is rejected here, where the
	// client gets an error, and not by the log when the run continues.
	MaxResult = 496 << 10
)

// CodeSessionLimit is that of a run that a limit of its session has ended.
const CodeSessionLimit = "framework_session_limit_exceeded"

// The ErrorCodes of calls.
const (
	// CodeToolFailed is that of a call whose client reports an error, docs/protocol/chat.md#helix-12.2.
	CodeToolFailed = "client_tool_error"

	// CodeAbandoned is that of a call whose user sent a message instead of an answer.
	CodeAbandoned = "client_tool_abandoned"

	// CodeDeadline is that of a call without an answer before its deadline.
	CodeDeadline = "client_tool_deadline_exceeded"
)

// abandonGrace limits the time between abandoning calls and requesting the run of the message. The clocks of edges and workers may differ by as much.
const abandonGrace = 15 * time.Second

// Answer is the answer to one call.
type Answer struct {
	Session  chunk.Session
	RunID    string // the run that is suspended on the call; passes subjects.CheckToken
	CallID   string // 1 to MaxAnswerID characters
	ToolName string // at most MaxAnswerID characters
	Kind     AnswerKind

	// Of an Approval.
	ApprovalID string // 1 to MaxApprovalID characters
	Approved   bool
	Reason     string // the user's reason; at most MaxError bytes
	InputHash  string // InputHash of the input that is approved; "" if it has none

	// Of a ClientResult or a SubagentResult: one of Result and Error. An Approval has no Result, and an Error if it is not a decision.
	Result    chunk.Value // at most MaxResult bytes; the zero Value is null
	Error     string      // at most MaxError bytes
	ErrorCode string      // as in tool_end, e.g. "client_tool_denied"; at most MaxAnswerID characters

	By *chunk.Principal // the client that answered; nil if it is not known, or for an answer of a worker or of a deadline
	At time.Time        // when it was stored, to the millisecond; Answer sets it
}

// ErrAnswered reports a call that has an answer. An *AnsweredError wraps it and holds the accepted answer.
var ErrAnswered = errors.New("call already answered")

// AnsweredError is ErrAnswered with the first answer.
type AnsweredError struct{ Answer Answer }

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("%s, run %s: call %.80q: %v", e.Answer.Session, e.Answer.RunID, e.Answer.CallID, ErrAnswered)
}

// Is makes an AnsweredError an ErrAnswered.
func (e *AnsweredError) Is(target error) bool { return target == ErrAnswered }

// Failed reports an answer that is an error, not a result and not a decision.
func (a Answer) Failed() bool { return a.Error != "" || a.ErrorCode != "" }

// Validate returns an error that names the invalid field. It is chunk.ErrInvalid, or chunk.ErrTooLarge for a Result. Session and RunID are checked with the
// key.
func (a Answer) Validate() error {
	switch a.Kind {
	case ClientResult, SubagentResult:
		if a.ApprovalID != "" || a.Approved {
			return invalid("ApprovalID", "is set, want none for a result")
		}
		if a.Failed() && len(a.Result) > 0 {
			return invalid("Result", "is set beside Error, want one of them")
		}
	case Approval:
		if a.ApprovalID == "" {
			return invalid("ApprovalID", "is empty, want the id of the approval that is answered")
		}
		if len(a.Result) > 0 {
			return invalid("Result", "is set, want none for an approval")
		}
		if a.Approved && a.Failed() {
			return invalid("Error", "is set, want none for what is approved")
		}
	default:
		return invalid("Kind", fmt.Sprintf("is %.80q, want %q, %q or %q", a.Kind, ClientResult, Approval, SubagentResult))
	}
	if a.CallID == "" {
		return invalid("CallID", "is empty, want the id of the call that is answered")
	}
	if err := a.checkSizes(); err != nil {
		return err
	}
	if err := checkPrincipal(a.By); err != nil {
		return err
	}
	return a.checkResult()
}

// checkResult rejects a result that the log would reject: invalid JSON, too many levels or too many values. Without it such an answer would be stored as the
// first one, and the run could never write the outcome of its call.
func (a Answer) checkResult() error {
	if len(a.Result) == 0 {
		return nil
	}
	record := chunk.Chunk{
		AgentID: "a", AgentType: "a", Timestamp: 1,
		Body: chunk.ToolEnd{ToolCallID: "c", ToolName: "t", Result: a.Result},
	}
	if _, err := record.AppendJSON(nil); err != nil {
		return fmt.Errorf("Result: %w", err)
	}
	return nil
}

func (a Answer) checkSizes() error {
	for _, id := range []struct {
		field, text string
		maxRunes    int
	}{
		{"CallID", a.CallID, MaxAnswerID}, {"ToolName", a.ToolName, MaxAnswerID}, {"ErrorCode", a.ErrorCode, MaxAnswerID},
		{"ApprovalID", a.ApprovalID, MaxApprovalID}, {"InputHash", a.InputHash, 64},
	} {
		if n := utf8.RuneCountInString(id.text); n > id.maxRunes {
			return invalid(id.field, fmt.Sprintf("has %d characters, want at most %d", n, id.maxRunes))
		}
		if !utf8.ValidString(id.text) {
			return invalid(id.field, "is not UTF-8")
		}
	}
	if err := checkText("Reason", a.Reason, MaxError); err != nil {
		return err
	}
	if err := checkText("Error", a.Error, MaxError); err != nil {
		return err
	}
	if len(a.Result) > MaxResult {
		return fmt.Errorf("result has %d bytes of JSON, want at most %d: %w", len(a.Result), MaxResult, chunk.ErrTooLarge)
	}
	return nil
}

func invalid(field, problem string) error {
	return fmt.Errorf("%s %s: %w", field, problem, chunk.ErrInvalid)
}

// AwaitsMessage reports whether the call was abandoned for a message whose run is about to be requested. If the suspended run were resumed now,
//  1. client A sends a message, and the calls are abandoned,
//  2. another process sees that all calls have answers, and requests the resume of the suspended run,
//  3. the message of client A is rejected, because a run is in progress.
//
// After abandonGrace client A must have failed, and the run may be resumed.
func (a Answer) AwaitsMessage(now time.Time) bool {
	return a.ErrorCode == CodeAbandoned && now.Sub(a.At).Abs() < abandonGrace
}
