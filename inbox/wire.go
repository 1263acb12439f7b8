package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// version is the shape of values. One of a higher version is left as it is.
const version = 1

var (
	// ErrUnsupported reports an answer or a stop that a newer build wrote and this
	// one cannot read.
	ErrUnsupported = errors.New("what is in the inbox is not supported by this build")

	// errMalformed reports a value that nobody can read: something else wrote it.
	// It counts as not there, and the next answer replaces it. Were it an error
	// instead, one stray write would keep a run waiting for ever.
	errMalformed = errors.New("malformed value")
)

// answerValue is an Answer as JSON. The key names the session and the run.
type answerValue struct {
	Version    int             `json:"version"`
	Kind       Kind            `json:"kind"`
	CallID     string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	ApprovalID string          `json:"approvalId,omitempty"`
	Approved   *bool           `json:"approved,omitempty"` // of an approval
	Reason     string          `json:"reason,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
	ErrorCode  string          `json:"errorCode,omitempty"`
	At         int64           `json:"at"` // Unix milliseconds
}

// stopValue is a Stop as JSON.
type stopValue struct {
	Version int      `json:"version"`
	Kind    StopKind `json:"kind"`
	Reason  string   `json:"reason,omitempty"`
	At      int64    `json:"at"` // Unix milliseconds
}

func (a Answer) encode() ([]byte, error) {
	v := answerValue{
		Version: version, Kind: a.Kind, CallID: a.CallID, ToolName: a.ToolName, ApprovalID: a.ApprovalID, Reason: a.Reason,
		Result: json.RawMessage(a.Result), Error: a.Error, ErrorCode: a.ErrorCode, At: a.At.UnixMilli(),
	}
	switch {
	case a.Kind == Approval:
		v.Approved = &a.Approved
	case !a.Failed() && len(v.Result) == 0:
		v.Result = json.RawMessage("null")
	}
	return marshal(v)
}

// decodeAnswer reads the value of a key of the run's answers.
func decodeAnswer(s chunk.Session, run, key string, data []byte) (Answer, error) {
	var v answerValue
	if err := unmarshal(data, &v, &v.Version); err != nil {
		return Answer{}, err
	}
	a := Answer{
		Session: s, RunID: run, CallID: v.CallID, ToolName: v.ToolName, Kind: v.Kind,
		ApprovalID: v.ApprovalID, Approved: v.Approved != nil && *v.Approved, Reason: v.Reason,
		Result: chunk.Value(v.Result), Error: v.Error, ErrorCode: v.ErrorCode, At: time.UnixMilli(v.At),
	}
	if v.Kind == Approval && v.Approved == nil && !a.Failed() {
		return Answer{}, fmt.Errorf("%w: neither approved nor an error", errMalformed)
	}
	if err := a.validate(); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	// The key says which call is meant. A value that says otherwise would answer
	// two calls, one of which somebody else may have answered already.
	if want, err := subjects.InboxAnswerKey(s, run, a.CallID); err != nil || want != key {
		return Answer{}, fmt.Errorf("%w: call %.80q does not belong under %s", errMalformed, a.CallID, key)
	}
	return a, nil
}

func (s Stop) encode() ([]byte, error) {
	return marshal(stopValue{Version: version, Kind: s.Kind, Reason: s.Reason, At: s.At.UnixMilli()})
}

func decodeStop(s chunk.Session, run string, data []byte) (Stop, error) {
	var v stopValue
	if err := unmarshal(data, &v, &v.Version); err != nil {
		return Stop{}, err
	}
	stop := Stop{Session: s, RunID: run, Kind: v.Kind, Reason: v.Reason, At: time.UnixMilli(v.At)}
	if err := stop.validate(); err != nil {
		return Stop{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return stop, nil
}

// marshal leaves < and > as they are: escaped, a result of HTML would be several
// times as long and no longer fit.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("Result: %w: %w", chunk.ErrInvalid, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

func unmarshal(data []byte, v any, got *int) error {
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	switch {
	case *got > version:
		return fmt.Errorf("version %d, want %d: %w", *got, version, ErrUnsupported)
	case *got < 1:
		return fmt.Errorf("%w: version is %d, want %d", errMalformed, *got, version)
	}
	return nil
}
