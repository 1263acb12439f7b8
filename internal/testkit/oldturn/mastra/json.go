package mastra

import (
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Package chunk checks the limits of a text; this package splits objects. All values here are parts of a valid text.

// text returns the string in v.
func text(v chunk.Value) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
}

// isObject and isArray check the first byte: there is no white space before it.
func isObject(v chunk.Value) bool { return len(v) > 0 && v[0] == '{' }
func isArray(v chunk.Value) bool  { return len(v) > 0 && v[0] == '[' }

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

// object returns the object with this name.
func (o object) object(name string) object { return read(o[name]) }

// elements yields the members of an object, with quoted names, or the elements of an array, with nil for names, in their order.
func elements(v chunk.Value) iter.Seq2[chunk.Value, chunk.Value] {
	return func(yield func(name, value chunk.Value) bool) {
		if !isArray(v) {
			for name, value := range rawjson.Members(v) {
				if !yield(chunk.Value(name), value) {
					return
				}
			}
			return
		}
		for value := range rawjson.Elements(v) {
			if !yield(nil, value) {
				return
			}
		}
	}
}
