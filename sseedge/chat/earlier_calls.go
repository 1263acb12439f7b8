package chat

import (
	"cmp"
	"encoding/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
)

// earlierCalls returns the calls whose outcomes belong to messages before this one.
func earlierCalls(state *conversation.State) map[string]bool {
	calls := state.EarlierOpenCalls
	if state.Opening() {
		calls = state.OpenCalls
	}
	earlier := make(map[string]bool, len(calls))
	for _, id := range calls {
		earlier[id] = true
	}
	return earlier
}

// isEarlierCall reports whether a record is about a call of an earlier message. A call that starts again belongs to this one.
func (st *stream) isEarlierCall(rec chunk.Record) bool {
	if len(st.earlier) == 0 || rec.Session != st.state.Session {
		return false
	}
	switch rec.Type {
	case chunk.TypeToolEnd, chunk.TypeToolApprovalResponse, chunk.TypeToolOutputError, chunk.TypeToolInputError, chunk.TypeSubagentEnd:
		return st.earlier[callOf(rec)]
	case chunk.TypeToolStart, chunk.TypeToolArgStreamStart, chunk.TypeToolApprovalRequest:
		delete(st.earlier, callOf(rec))
	}
	return false
}

// callOf returns the call to which a record belongs.
func callOf(rec chunk.Record) string {
	var about struct {
		ToolCallID string `json:"toolCallId"`
		CallID     string `json:"callId"`
	}
	if err := json.Unmarshal(rec.Data, &about); err != nil {
		return ""
	}
	return cmp.Or(about.ToolCallID, about.CallID)
}
