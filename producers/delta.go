package producers

import "github.com/tailrace/tailrace/chunk"

// blockKey tells which block a delta belongs to: consecutive deltas with the
// same key are pieces of one text. The zero key is of what is no delta.
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

// deltaText is the text of a delta: what grows by merging and may be split.
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
