package mastra

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
)

// Package chunk reads strings exactly, lone surrogates included, and holds a
// text to its limits. So it does the reading here too; what is left is to take
// objects apart. All values in this package are pieces of a text that was
// found valid.

// open reads one JSON value. A chunk that is over the limits may be within them
// without the history it repeats: a long run ends with such a one.
func open(raw []byte) (chunk.Value, error) {
	v, err := check(raw)
	if err == nil {
		return v, nil
	}
	whole := jsontext.Value(bytes.Trim(raw, " \t\r\n"))
	if !whole.IsValid(lenient...) {
		return nil, err
	}
	return check(redact(chunk.Value(whole), chunk.MaxDepth))
}

// lenient leaves to package chunk what it knows better.
var lenient = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}

// check reads one JSON value, on one line, that fits into a chunk.
func check(raw []byte) (chunk.Value, error) {
	// As data, not as text put between others: what comes can then not pass for
	// members of the chunk around it.
	line, err := chunk.Chunk{AgentID: "-", Body: chunk.Custom{Data: raw}}.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	c, err := chunk.Decode(line)
	if err != nil {
		return nil, err
	}
	b, _ := chunk.As[chunk.Custom](c)
	return b.Data, nil
}

// text is the string that v is.
func text(v chunk.Value) (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	line := append([]byte(`{"type":"text_delta","agentId":"-","agentType":"","timestamp":0,"delta":`), v...)
	c, err := chunk.Decode(append(line, '}'))
	b, ok := chunk.As[chunk.TextDelta](c)
	return b.Delta, ok && err == nil
}

// quote is the JSON of a string that package chunk has read.
func quote(s string) chunk.Value {
	line, err := chunk.Chunk{AgentID: "-", Body: chunk.TextDelta{Delta: s}}.AppendJSON(nil)
	if err != nil {
		return chunk.Value(`""`) // only a string that no chunk had can fail
	}
	_, v, _ := bytes.Cut(line, []byte(`"delta":`))
	return v[:len(v)-1]
}

// isObject and isArray look at the first byte: there is no white space before it.
func isObject(v chunk.Value) bool { return len(v) > 0 && v[0] == '{' }
func isArray(v chunk.Value) bool  { return len(v) > 0 && v[0] == '[' }

// object holds the members of a JSON object by name. The nil object has none.
type object map[string]chunk.Value

// read is the object that v is, nil when it is none.
func read(v chunk.Value) object {
	if !isObject(v) {
		return nil
	}
	o := object{}
	for name, value := range elements(v) {
		if s, ok := text(name); ok {
			o[s] = value
		}
	}
	return o
}

// text is the string of that name.
func (o object) text(name string) (string, bool) { return text(o[name]) }

// or is the string of that name, or another one when there is none.
func (o object) or(name, other string) string {
	if s, ok := o.text(name); ok {
		return s
	}
	return other
}

// maybe is the string of that name, nil when there is none.
func (o object) maybe(name string) *string {
	if s, ok := o.text(name); ok {
		return &s
	}
	return nil
}

// object is the object of that name.
func (o object) object(name string) object { return read(o[name]) }

// flag reports whether the member of that name is true.
func (o object) flag(name string) bool { return string(o[name]) == "true" }

// elements are the members of an object, with quoted names, or the elements of an
// array, with nil for names, in the order they came.
func elements(v chunk.Value) iter.Seq2[chunk.Value, chunk.Value] {
	return func(yield func(name, value chunk.Value) bool) {
		if !isObject(v) && !isArray(v) {
			return
		}
		dec := jsontext.NewDecoder(bytes.NewBuffer(v), lenient...)
		next := func() chunk.Value {
			if kind := dec.PeekKind(); kind == jsontext.KindEndObject || kind == jsontext.KindEndArray {
				return nil
			}
			piece, err := dec.ReadValue()
			if err != nil {
				panic("mastra: a text that was found valid cannot be read: " + err.Error())
			}
			return chunk.Value(bytes.Clone(piece))
		}
		if _, err := dec.ReadToken(); err != nil {
			panic("mastra: a text that was found valid cannot be read: " + err.Error())
		}
		for {
			var name chunk.Value
			if isObject(v) {
				if name = next(); name == nil {
					return
				}
			}
			value := next()
			if value == nil || !yield(name, value) {
				return
			}
		}
	}
}
