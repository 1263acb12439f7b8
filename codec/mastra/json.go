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

// object has the members of a JSON object by name. The nil object has none.
type object map[string]chunk.Value

// read returns the object v, nil for another value.
func read(v chunk.Value) object {
	if !isObject(v) {
		return nil
	}
	o := object{}
	for name, value := range rawjson.Members(v) {
		if s, err := name.Unquote(); err == nil {
			o[s] = value
		}
	}
	return o
}

// text returns the string with this name.
func (o object) text(name string) (string, bool) { return text(o[name]) }

// or returns the string with this name, or other if there is none.
func (o object) or(name, other string) string {
	if s, ok := o.text(name); ok {
		return s
	}
	return other
}

// object returns the object with this name.
func (o object) object(name string) object { return read(o[name]) }

// orNull returns v, null if it is missing.
func orNull(v chunk.Value) chunk.Value {
	if v == nil {
		return chunk.Value("null")
	}
	return v
}
