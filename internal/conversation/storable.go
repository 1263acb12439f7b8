package conversation

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

// MaxRecord limits the size of a user's input as JSON in its log record: such a record has at most 512 KiB, and the rest is reserved for its other members.
const MaxRecord = 496 << 10

// Accepted input must fit into the log. The queue and the inbox accept more than a record can hold: then the worker could never write the input, and the chat
// would be stuck.

// checkInput returns chunk.ErrInvalid or chunk.ErrTooLarge for an input that no run_started can hold.
func checkInput(c *control.Command) error {
	return fits(c.Session, c.AgentType, chunk.RunStarted{RunID: c.RunID, Epoch: 1, Mode: string(c.Kind), Input: c.Input})
}

// checkAnswer does the same for an answer and the record of its outcome.
func checkAnswer(a *control.Answer) error {
	if a.Kind == control.Approval {
		return fits(a.Session, "agent", chunk.ToolApprovalResponse{ToolCallID: a.CallID, ToolName: a.ToolName, ApprovalID: a.ApprovalID, Reason: &a.Reason})
	}
	return fits(a.Session, "agent", chunk.ToolEnd{ToolCallID: a.CallID, ToolName: a.ToolName, Result: a.Result, Error: &a.Error, ErrorCode: &a.ErrorCode})
}

func fits(s chunk.Session, agentType string, body chunk.Body) error {
	data, err := chunk.Chunk{AgentID: s.ID, AgentType: agentType, Body: body}.AppendJSON(nil)
	if err == nil && len(data) > MaxRecord {
		err = fmt.Errorf("%w: %d bytes of JSON, want at most %d", chunk.ErrTooLarge, len(data), MaxRecord)
	}
	return err
}
