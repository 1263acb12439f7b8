package inbox

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Kind says what kind of call is answered.
type Kind string

// The kinds of answers.
const (
	// ClientResult is what a tool that runs in the client gave, or, with Error,
	// that it could not.
	ClientResult Kind = "client-tool-result"

	// Approval is a person's decision about a call that asks first. With Error
	// it says why there will be none: the call was abandoned, or its deadline
	// passed.
	Approval Kind = "approval-response"

	// SubagentResult is what a sub-agent came to. Its worker stores it.
	SubagentResult Kind = "subagent-result"
)

// Limits of an Answer and a Stop.
const (
	// MaxID bounds the ids of calls, the names of tools and codes, in characters.
	MaxID = 256

	// MaxApprovalID bounds the id of an approval, which is made of the ids of a
	// run and a call with "::" between.
	MaxApprovalID = subjects.MaxToken + 2 + MaxID

	// MaxError bounds an Error and a Reason in bytes.
	MaxError = 8 << 10

	// MaxResult bounds a Result in bytes of JSON. The result becomes part of one
	// record of the log, tool_end, which takes 512 KiB; 16 KiB of that are room
	// for the record's other members, of which the ids alone may be 256
	// characters of up to 12 bytes each. A larger result is refused here, where
	// somebody can be told, and not by the log when the run goes on.
	MaxResult = 496 << 10
)

// Answer is what was said to one call.
type Answer struct {
	Session  chunk.Session
	RunID    string // the run that paused on the call; passes subjects.CheckToken
	CallID   string // 1 to MaxID characters
	ToolName string // at most MaxID characters
	Kind     Kind

	// Of an Approval.
	ApprovalID string // 1 to MaxApprovalID characters
	Approved   bool
	Reason     string // why, in a person's words; at most MaxError bytes

	// Of a ClientResult or a SubagentResult: one of Result and Error. An
	// Approval has no Result, and an Error when it is no decision.
	Result    chunk.Value // at most MaxResult bytes; the zero Value is null
	Error     string      // at most MaxError bytes
	ErrorCode string      // as tool_end has it, e.g. "client_tool_denied"; at most MaxID characters

	At time.Time // when it was given, to the millisecond; Answer fills it in
}

// ErrAnswered reports a call that was answered already. An *AnsweredError wraps
// it and holds the answer that counts.
var ErrAnswered = errors.New("the call has been answered already")

// AnsweredError is ErrAnswered with the first answer.
type AnsweredError struct{ Answer Answer }

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("%s, run %s: call %.80q: %v", e.Answer.Session, e.Answer.RunID, e.Answer.CallID, ErrAnswered)
}

// Is makes an AnsweredError an ErrAnswered.
func (e *AnsweredError) Is(target error) bool { return target == ErrAnswered }

// Failed reports an answer that is an error, not a result and not a decision.
func (a Answer) Failed() bool { return a.Error != "" || a.ErrorCode != "" }

// validate names the field that is wrong. The error is chunk.ErrInvalid, or
// chunk.ErrTooLarge for a Result. Session and RunID are judged with the key.
func (a Answer) validate() error {
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
	return a.checkResult()
}

// checkResult refuses a result that the log would refuse: one that is no exact
// JSON, has too many levels or too many values. Without it the answer is stored, the first
// one wins, and the run can never write down what came of its call.
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
		most        int
	}{
		{"CallID", a.CallID, MaxID}, {"ToolName", a.ToolName, MaxID}, {"ErrorCode", a.ErrorCode, MaxID},
		{"ApprovalID", a.ApprovalID, MaxApprovalID},
	} {
		if n := utf8.RuneCountInString(id.text); n > id.most {
			return invalid(id.field, fmt.Sprintf("has %d characters, want at most %d", n, id.most))
		}
		if !utf8.ValidString(id.text) {
			return invalid(id.field, "is no UTF-8")
		}
	}
	if err := checkWords("Reason", a.Reason); err != nil {
		return err
	}
	if err := checkWords("Error", a.Error); err != nil {
		return err
	}
	if len(a.Result) > MaxResult {
		return fmt.Errorf("result has %d bytes of JSON, want at most %d: %w", len(a.Result), MaxResult, chunk.ErrTooLarge)
	}
	return nil
}

func checkWords(field, text string) error {
	if len(text) > MaxError {
		return invalid(field, fmt.Sprintf("has %d bytes, want at most %d", len(text), MaxError))
	}
	if !utf8.ValidString(text) {
		return invalid(field, "is no UTF-8")
	}
	return nil
}

func invalid(field, problem string) error {
	return fmt.Errorf("%s %s: %w", field, problem, chunk.ErrInvalid)
}
