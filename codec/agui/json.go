package agui

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// isObject and isArray check the first byte: there is no white space before it.
func isObject(v chunk.Value) bool { return len(v) > 0 && v[0] == '{' }
func isArray(v chunk.Value) bool  { return len(v) > 0 && v[0] == '[' }

// object has the members of a JSON object by name. The nil object has none. Members that are null are missing: clients write null for what they leave out.
type object map[string]chunk.Value

// read returns the object v, nil for another value.
func read(v chunk.Value) object {
	if !isObject(v) {
		return nil
	}
	o := object{}
	for name, value := range rawjson.Members(v) {
		if s, err := name.Unquote(); err == nil && string(value) != "null" {
			o[s] = value
		}
	}
	return o
}

// text returns the string in v.
func text(v chunk.Value) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
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

// maybe returns the string with this name, nil if there is none.
func (o object) maybe(name string) *string {
	if s, ok := o.text(name); ok {
		return &s
	}
	return nil
}

// object returns the object with this name.
func (o object) object(name string) object { return read(o[name]) }

// flag reports whether the member with this name is true.
func (o object) flag(name string) bool { return string(o[name]) == "true" }

// quote returns the JSON of a string.
func quote(s string) chunk.Value {
	v, _ := rawjson.AppendQuotedChunk(nil, s)
	return v
}
