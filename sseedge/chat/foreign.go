package chat

import (
	"encoding/json"

	"github.com/tailrace/tailrace/chunk"
)

// foreignCalls are the calls whose outcomes belong to messages before this one.
func foreignCalls(v *View) map[string]bool {
	calls := v.Earlier
	if v.opening() {
		calls = v.Unsettled
	}
	foreign := make(map[string]bool, len(calls))
	for _, id := range calls {
		foreign[id] = true
	}
	return foreign
}

// isForeign reports whether a record is about a call of an earlier message, and
// remembers calls that begin anew.
func (st *stream) isForeign(rec chunk.Record) bool {
	if len(st.foreign) == 0 || rec.Session != st.view.Session {
		return false
	}
	switch rec.Type {
	case chunk.TypeToolEnd, chunk.TypeToolApprovalResponse, chunk.TypeToolOutputError, chunk.TypeToolInputError, chunk.TypeSubagentEnd:
		return st.foreign[callOf(rec)]
	case chunk.TypeToolStart, chunk.TypeToolArgStreamStart, chunk.TypeToolApprovalRequest:
		delete(st.foreign, callOf(rec))
	}
	return false
}

// callOf is the call that a record is about.
func callOf(rec chunk.Record) string {
	var about struct {
		ToolCallID string `json:"toolCallId"`
		CallID     string `json:"callId"`
	}
	if err := json.Unmarshal(rec.Data, &about); err != nil {
		return ""
	}
	if about.ToolCallID == "" {
		return about.CallID
	}
	return about.ToolCallID
}
