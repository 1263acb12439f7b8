package dialect

import (
	"encoding/json"
	"reflect"

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

// TextAt returns the string at a path in v, "" for another value.
func TextAt(v []byte, path ...string) string {
	s, _ := Text(rawjson.Get(v, path...))
	return s
}

// Same reports whether two values have the same meaning.
func Same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Written is the length and the hash of a text so far, for a later event that repeats the text.
type Written struct {
	size int
	sum  uint64
}

// Add notes a piece of the text.
func (w *Written) Add(piece string) {
	for i := range len(piece) {
		w.sum = (w.sum ^ uint64(piece[i])) * 1099511628211 // FNV-1a
	}
	w.size += len(piece)
}

// Rest returns what whole has behind the text, and false if it does not begin with the text.
func (w *Written) Rest(whole string) (string, bool) {
	if len(whole) < w.size {
		return "", false
	}
	var begin Written
	if begin.Add(whole[:w.size]); begin != *w {
		return "", false
	}
	return whole[w.size:], true
}

// OrNull returns v, null if it is missing.
func OrNull(v chunk.Value) chunk.Value {
	if len(v) == 0 {
		return chunk.Value("null")
	}
	return v
}
