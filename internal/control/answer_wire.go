package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// inboxVersion is the version of the form of values. A value of a higher version is not changed.
const inboxVersion = 1

// answerValue is an Answer as JSON. The key names the session and the run.
type answerValue struct {
	Version    int             `json:"version"`
	Kind       AnswerKind      `json:"kind"`
	CallID     string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	ApprovalID string          `json:"approvalId,omitempty"`
	Approved   *bool           `json:"approved,omitempty"` // of an approval
	Reason     string          `json:"reason,omitempty"`
	InputHash  string          `json:"inputHash,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
	ErrorCode  string          `json:"errorCode,omitempty"`
	By         *bodyPrincipal  `json:"by,omitempty"`
	At         int64           `json:"at"` // Unix milliseconds
}

// stopValue is a Stop as JSON.
type stopValue struct {
	Version int            `json:"version"`
	Kind    StopKind       `json:"kind"`
	Reason  string         `json:"reason,omitempty"`
	By      *bodyPrincipal `json:"by,omitempty"`
	At      int64          `json:"at"` // Unix milliseconds
}

// Encode returns a valid answer as the value of its key.
func (a Answer) Encode() ([]byte, error) {
	v := answerValue{
		Version: inboxVersion, Kind: a.Kind, CallID: a.CallID, ToolName: a.ToolName, ApprovalID: a.ApprovalID, Reason: a.Reason, InputHash: a.InputHash,
		Result: json.RawMessage(a.Result), Error: a.Error, ErrorCode: a.ErrorCode, By: byOf(a.By), At: a.At.UnixMilli(),
	}
	switch {
	case a.Kind == Approval:
		v.Approved = &a.Approved
	case !a.Failed() && len(v.Result) == 0:
		v.Result = json.RawMessage("null")
	}
	return marshal(v)
}

// DecodeAnswer reads the value of a key of the run's answers.
func DecodeAnswer(s chunk.Session, run, key string, data []byte) (Answer, error) {
	var v answerValue
	if err := unmarshal(data, &v, &v.Version); err != nil {
		return Answer{}, err
	}
	a := Answer{
		Session: s, RunID: run, CallID: v.CallID, ToolName: v.ToolName, Kind: v.Kind,
		ApprovalID: v.ApprovalID, Approved: v.Approved != nil && *v.Approved, Reason: v.Reason, InputHash: v.InputHash,
		Result: chunk.Value(v.Result), Error: v.Error, ErrorCode: v.ErrorCode, By: v.By.principal(), At: time.UnixMilli(v.At),
	}
	if v.Kind == Approval && v.Approved == nil && !a.Failed() {
		return Answer{}, fmt.Errorf("%w: neither approved nor an error", ErrMalformed)
	}
	if err := a.Validate(); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// The key identifies the call. A value for another call would answer two calls, one of which may have an answer already.
	if want, err := names.InboxAnswerKey(s, run, a.CallID); err != nil || want != key {
		return Answer{}, fmt.Errorf("%w: call %.80q does not belong under %s", ErrMalformed, a.CallID, key)
	}
	return a, nil
}

// Encode returns a valid stop request as the value of its key.
func (s Stop) Encode() ([]byte, error) {
	return marshal(stopValue{Version: inboxVersion, Kind: s.Kind, Reason: s.Reason, By: byOf(s.By), At: s.At.UnixMilli()})
}

// DecodeStop reads the stop request of a run.
func DecodeStop(s chunk.Session, run string, data []byte) (Stop, error) {
	var v stopValue
	if err := unmarshal(data, &v, &v.Version); err != nil {
		return Stop{}, err
	}
	stop := Stop{Session: s, RunID: run, Kind: v.Kind, Reason: v.Reason, By: v.By.principal(), At: time.UnixMilli(v.At)}
	if err := stop.Validate(); err != nil {
		return Stop{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return stop, nil
}

// marshal does not escape < and >: a result of HTML would be several times as long and not fit.
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
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	// The writer may have meant the member that is not read, such as the first one of {"approved":false,"approved":true}.
	seen := make(map[string]bool)
	for name := range rawjson.Members(data) {
		text := string(name.Bytes())
		if seen[text] {
			return fmt.Errorf("%w: two members %.80q", ErrMalformed, text)
		}
		seen[text] = true
	}
	switch {
	case *got > inboxVersion:
		return fmt.Errorf("version %d, want %d: %w", *got, inboxVersion, ErrUnsupported)
	case *got < 1:
		return fmt.Errorf("%w: version is %d, want %d", ErrMalformed, *got, inboxVersion)
	}
	return nil
}
