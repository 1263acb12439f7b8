package chunk

import (
	"unicode/utf8"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// delta returns the text of c if it is a piece of a growing text: a text_delta, a piece of streamed thinking, or a piece of a tool call's arguments.
func (c Chunk) delta() (string, bool) {
	switch b := c.Body.(type) {
	case TextDelta:
		return b.Delta, true
	case Thinking:
		return b.Content, !b.IsComplete
	case ToolArgStreamDelta:
		return b.Delta, true
	default:
		return "", false
	}
}

// withDelta returns c, a piece, with another text.
func (c Chunk) withDelta(text string) Chunk {
	switch b := c.Body.(type) {
	case TextDelta:
		b.Delta = text
		c.Body = b
	case Thinking:
		b.Content = text
		c.Body = b
	case ToolArgStreamDelta:
		b.Delta = text
		c.Body = b
	}
	return c
}

// Merge appends b to a if both are pieces of one text: text_delta, streamed thinking, or the arguments of one call, from the same agent in the same step.
// The result has the time of a. Chunks with Extra members are not merged, because their meaning is unknown.
func Merge(a, b Chunk) (Chunk, bool) {
	if a.AgentID != b.AgentID || a.AgentType != b.AgentType || a.Step != b.Step || len(a.Extra)+len(b.Extra) > 0 {
		return Chunk{}, false
	}
	head, ok := a.delta()
	tail, also := b.delta()
	if !ok || !also || a.Type() != b.Type() || a.callID() != b.callID() {
		return Chunk{}, false
	}
	return a.withDelta(Concat(head, tail)), true
}

func (c Chunk) callID() string {
	b, _ := As[ToolArgStreamDelta](c)
	return b.ToolCallID
}

// Split cuts c into chunks whose JSON is at most limit bytes each; Merge joins them to c. It never cuts inside a character. A chunk that fits is returned
// alone. The result is nil if c is too large and cannot be cut: it is not a piece of a text, it has Extra members, or limit is too small for any
// text.
func Split(c Chunk, limit int) []Chunk {
	whole, err := c.AppendJSON(nil)
	if err != nil {
		return nil
	}
	if len(whole) <= limit {
		return []Chunk{c}
	}
	text, ok := c.delta()
	if !ok || len(c.Extra) > 0 {
		return nil
	}
	empty, err := c.withDelta("").AppendJSON(nil)
	if err != nil {
		return nil
	}
	textLimit := limit - len(empty)
	var parts []Chunk
	for text != "" {
		n := fitting(text, textLimit)
		if n == 0 {
			return nil
		}
		parts = append(parts, c.withDelta(text[:n]))
		text = text[n:]
	}
	return parts
}

// fitting returns how many bytes of s, in whole characters, take at most limit bytes of JSON.
func fitting(s string, limit int) int {
	n := 0
	for n < len(s) {
		size, cost := written(s[n:])
		if cost > limit {
			break
		}
		n += size
		limit -= cost
	}
	return n
}

// written returns the size of the first character of s and its size in JSON.
func written(s string) (size, cost int) {
	c := s[0]
	switch {
	case c >= utf8.RuneSelf:
		if rawjson.SurrogateAt(s) != 0 {
			return 3, len(`\ud800`)
		}
		_, size := utf8.DecodeRuneInString(s)
		return size, size
	case c >= ' ' && c != '"' && c != '\\':
		return 1, 1
	default:
		var buf [8]byte
		quoted, _ := rawjson.AppendQuotedChunk(buf[:0], s[:1])
		return 1, len(quoted) - len(`""`)
	}
}
