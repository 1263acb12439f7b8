package turn

import "github.com/tailrace/tailrace/chunk"

// hidden returns what a hidden record does to the snapshot: whether it ends the open text of its agent, because a text before it and one after it are two parts, and
// whether it adds a part.
func (m *Machine) hidden(it *Item) (endsText, addsPart bool) {
	const empty = len(`""`)
	switch it.Rec.Type {
	case chunk.TypeTextDelta:
		endsText = len(it.piece) > 0 || len(it.Get("delta")) > empty
		return endsText, endsText
	case chunk.TypeThinking:
		endsText = len(it.piece) > 0 || len(it.Get("content")) > empty
		return endsText, endsText
	case chunk.TypeFile, chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeSubagentStart:
		return true, true
	case chunk.TypeError, chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeRunPaused, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded, chunk.TypeRunInterrupted:
		return true, false
	case chunk.TypeCustom:
		is, _ := m.structured(it)
		return false, is.isPart()
	}
	return it.By.hidden.follow(it)
}

// hiddenCalls are the calls of an agent that are hidden from a client, the latest of each id: as in the snapshot, an outcome of a call that has one ends no text,
// and one without a start does.
type hiddenCalls map[string]hiddenCall

// hiddenCall has the records of the start and the outcome, 0 for none.
type hiddenCall struct{ at, endedAt chunk.Ordinal }

// follow follows a hidden record. It reports whether the record ends a text, and whether it begins the part of a call.
func (h *hiddenCalls) follow(it *Item) (endsText, begins bool) {
	if it.Text("toolName") == FinishTool {
		return false, false
	}
	id := it.Text("toolCallId")
	c, known := (*h)[id]
	switch it.Rec.Type {
	case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest:
		if known = known && c.endedAt == 0; !known {
			c = hiddenCall{}
		}
		endsText = true
	case chunk.TypeToolEnd, chunk.TypeToolOutputError, chunk.TypeToolInputError, chunk.TypeToolApprovalResponse:
		decides := it.Rec.Type == chunk.TypeToolApprovalResponse
		answers := decides || it.Rec.Type == chunk.TypeToolEnd && !it.Is("providerExecuted")
		if c.endedAt > 0 || answers && !known { // an answer without a start is that of a call of an earlier turn
			return false, false
		}
		endsText = !known || it.Rec.Type == chunk.TypeToolInputError
		if !decides || !it.Is("approved") {
			c.endedAt = it.Rec.Ordinal
		}
	default:
		return false, false
	}
	if !known {
		c.at = it.Rec.Ordinal
	}
	if *h == nil {
		*h = make(hiddenCalls)
	}
	(*h)[id] = c
	return endsText, !known
}

// remove reverts what removed records changed.
func (h *hiddenCalls) remove(taken func(chunk.Ordinal) bool) {
	for id, c := range *h {
		if taken(c.at) {
			delete(*h, id)
		} else if taken(c.endedAt) {
			(*h)[id] = hiddenCall{at: c.at}
		}
	}
}
