package dialect

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// CheckValue checks that one JSON value fits into a chunk, and returns it on one line. One with more than chunk.MaxValues fits too: a writer stores it elsewhere.
func CheckValue(raw []byte) (chunk.Value, error) {
	// As data, not as text between others, so that its members cannot be taken for members of the surrounding chunk.
	line, err := chunk.Chunk{AgentID: "-", Body: chunk.Custom{Data: raw}}.AppendJSON(nil)
	if err != nil {
		if text := rawjson.TrimSpace(raw); len(text) > 2*chunk.MaxValues && isLarge(text) {
			return rawjson.AppendCompact(make([]byte, 0, len(text)), text), nil
		}
		return nil, err
	}
	c, err := chunk.Decode(line)
	if err != nil {
		return nil, err
	}
	b, _ := chunk.As[chunk.Custom](c)
	return b.Data, nil
}

// isLarge reports whether text is a value that does not fit into a chunk only because of the number of its values.
func isLarge(text []byte) bool {
	_, ok := rawjson.Scan(text, rawjson.Limits{Levels: chunk.MaxDepth - 1, Name: chunk.MaxName})
	return ok && rawjson.Duplicate(text) == nil
}

// Text returns the string in v.
func Text(v chunk.Value) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
}

// OrNull returns v, null if it is missing.
func OrNull(v chunk.Value) chunk.Value {
	if v == nil {
		return chunk.Value("null")
	}
	return v
}
