package turn

import "github.com/tailrace/tailrace/chunk"

// HiddenCalls are the calls of an agent that are hidden from a client, the latest of each id: as in the snapshot, an outcome of a call that has one ends no text,
// and one without a start does.
type HiddenCalls map[string]hiddenCall

// hiddenCall has the records of the start and the outcome, 0 for none.
type hiddenCall struct{ at, endedAt chunk.Ordinal }

// Hide follows a hidden record. It reports whether the record ends the open text of its agent, see EndsText, and whether it begins the part of a call.
func (h *HiddenCalls) Hide(rec *chunk.Record, m *chunk.Members, kind BlockKind, piece []byte) (endsText, beginsCall bool) {
	endsText = EndsText(rec, m, kind, piece)
	if kind != NoBlock || m.Text("toolName") == FinishTool {
		return endsText, false
	}
	id := m.Text("toolCallId")
	c, known := (*h)[id]
	switch rec.Type {
	case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest:
		if known = known && c.endedAt == 0; !known {
			c = hiddenCall{}
		}
	case chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError, chunk.TypeToolApprovalResponse:
		answers := rec.Type == chunk.TypeToolApprovalResponse || rec.Type == chunk.TypeToolEnd && string(m.Get("providerExecuted")) != "true"
		if c.endedAt > 0 || answers && !known { // an answer without a start is that of a call of an earlier turn
			return false, false
		}
		endsText = endsText || !known
		if rec.Type != chunk.TypeToolApprovalResponse || string(m.Get("approved")) != "true" {
			c.endedAt = rec.Ordinal
		}
	default:
		return endsText, false
	}
	if !known {
		c.at = rec.Ordinal
	}
	if *h == nil {
		*h = make(HiddenCalls)
	}
	(*h)[id] = c
	return endsText, !known
}

// Remove reverts what removed records changed.
func (h *HiddenCalls) Remove(taken func(chunk.Ordinal) bool) {
	for id, c := range *h {
		if taken(c.at) {
			delete(*h, id)
		} else if taken(c.endedAt) {
			(*h)[id] = hiddenCall{at: c.at}
		}
	}
}
