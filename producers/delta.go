package producers

import "github.com/tailrace/tailrace/chunk"

// blockKey identifies the block of a delta: consecutive deltas with the same key are parts of one text. Other chunks have the zero key.
type blockKey struct {
	typ       chunk.Type
	call      string
	agentType string
	step      int64
}

func keyOf(it *item) blockKey {
	if !it.delta {
		return blockKey{}
	}
	k := blockKey{typ: it.typ, agentType: it.c.AgentType, step: it.c.Step}
	if b, ok := it.c.Body.(chunk.ToolArgStreamDelta); ok {
		k.call = b.ToolCallID
	}
	return k
}

// deltaText returns the text of a delta, which can be merged and split.
func deltaText(b chunk.Body) (text string, ok bool) {
	switch b := b.(type) {
	case chunk.TextDelta:
		return b.Delta, true
	case chunk.Thinking:
		return b.Content, !b.IsComplete
	case chunk.ToolArgStreamDelta:
		return b.Delta, true
	}
	return "", false
}
