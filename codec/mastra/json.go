package mastra

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Package chunk checks the limits of a text; this package splits objects. All values here are parts of a valid text.

// maxLevels limits the nesting of a text that may fit into a chunk after it was redacted.
const maxLevels = 10_000

// open parses one JSON value. A chunk that exceeds the limits may fit without the history that it repeats: a long run ends with such a chunk.
func open(raw []byte) (chunk.Value, error) {
	v, err := dialect.CheckValue(raw)
	if err == nil {
		return v, nil
	}
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: maxLevels}); !ok {
		return nil, err
	}
	return dialect.CheckValue(redact(chunk.Value(rawjson.TrimSpace(raw)), chunk.MaxDepth))
}

// text returns the string in v.
func text(v chunk.Value) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
}

// isObject checks the first byte: there is no white space before it.
func isObject(v chunk.Value) bool { return len(v) > 0 && v[0] == '{' }

// orNull returns v, null if it is missing.
func orNull(v chunk.Value) chunk.Value {
	if v == nil {
		return chunk.Value("null")
	}
	return v
}
