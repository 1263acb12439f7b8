package kortyx

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The events with chunks of Kortyx that have no counterpart are named after their types, those of structured data without the prefix: readers of all dialects
// assemble them, see projector/fold.
const (
	prefix         = "kortyx."
	structuredData = "structured-data"
	invalidated    = "structured-data-invalidated"
	approvalPrefix = "tool:" // of the id of an interrupt that asks for the approval of a call
)

// maxLevels limits the nesting of a done, whose data is not read.
const maxLevels = 10_000

// open parses one JSON object that fits into a chunk. A done may be larger: its data is the state of the whole workflow, and is not kept.
func open(raw []byte) (chunk.Value, error) {
	v, err := dialect.CheckValue(raw)
	if err == nil {
		return v, nil
	}
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: maxLevels}); !ok || !isDone(raw) {
		return nil, err
	}
	return chunk.Value(`{"type":"done"}`), nil
}

// isDone reports whether an object has one member type, which is done.
func isDone(raw []byte) bool {
	types, done := 0, false
	for name, value := range rawjson.Members(raw) {
		if name.Is("type") {
			types, done = types+1, rawjson.Text(value).Is("done")
		}
	}
	return types == 1 && done
}

// object has the members of a JSON object by name. The nil object has none.
type object map[string]chunk.Value

// read returns the object v, nil for another value.
func read(v chunk.Value) object {
	if rawjson.Kind(v) != '{' {
		return nil
	}
	o := object{}
	for name, value := range rawjson.Members(v) {
		o[string(name.Bytes())] = value
	}
	return o
}

// text returns the string in v.
func text(v chunk.Value) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
}

func (o object) text(name string) (string, bool) { return text(o[name]) }

// or returns the string with this name, or other if there is none.
func (o object) or(name, other string) string {
	if s, ok := o.text(name); ok {
		return s
	}
	return other
}

func (o object) object(name string) object { return read(o[name]) }

func (o object) flag(name string) bool { return string(o[name]) == "true" }

// arguments returns the input of a call as an object.
func arguments(input chunk.Value) chunk.Value {
	switch {
	case input.IsNull():
		return chunk.Value(`{}`)
	case rawjson.Kind(input) == '{':
		return input
	}
	return append(append(chunk.Value(`{"value":`), input...), '}')
}

// contentText returns the content of a tool's result as text: a string, the texts of content blocks, otherwise its JSON.
func contentText(v chunk.Value) string {
	if s, ok := text(v); ok {
		return s
	}
	var texts []string
	for block := range rawjson.Elements(v) {
		if s, ok := read(block).text("text"); ok {
			texts = append(texts, s)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "\n")
	}
	return string(v)
}

// withoutToken returns v without the members resumeToken, at any depth: the token answers a question in the user's name.
func withoutToken(v chunk.Value) chunk.Value {
	out, _ := appendWithoutToken(nil, v)
	return out
}

func appendWithoutToken(dst []byte, v []byte) ([]byte, bool) {
	begin := len(dst)
	sep := func() {
		if len(dst) > begin+1 {
			dst = append(dst, ',')
		}
	}
	removed := false
	switch rawjson.Kind(v) {
	case '{':
		dst = append(dst, '{')
		for name, value := range rawjson.Members(v) {
			if name.Is("resumeToken") {
				removed = true
				continue
			}
			sep()
			dst = append(append(dst, name...), ':')
			var inner bool
			dst, inner = appendWithoutToken(dst, value)
			removed = removed || inner
		}
		dst = append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for value := range rawjson.Elements(v) {
			sep()
			var inner bool
			dst, inner = appendWithoutToken(dst, value)
			removed = removed || inner
		}
		dst = append(dst, ']')
	}
	if !removed {
		return append(dst[:begin], v...), false
	}
	return dst, true
}

// orNull returns v, null if it is missing.
func orNull(v chunk.Value) chunk.Value {
	if v == nil {
		return null
	}
	return v
}
