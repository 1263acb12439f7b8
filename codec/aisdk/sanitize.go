package aisdk

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// The SDK's client rejects a chunk, and with it the rest of the stream, if any object in it has a member __proto__, or a member constructor that is an
// object with a member prototype. Values of tools and applications can have both.
const (
	protoName       = "__proto__"
	constructorName = "constructor"
	prototypeName   = "prototype"
)

// AppendSanitized appends a JSON value for the SDK's client: a name that the client rejects gets a $ before it, and so does a name that would then look
// the same ($__proto__ becomes $$__proto__). Nothing else changes, so numbers of any size and lone surrogates stay exact. It appends text that is not
// JSON without a useful result.
func AppendSanitized(dst, value []byte) []byte {
	if !mayHaveForbiddenName(value) {
		return append(dst, value...)
	}
	s := sanitizer{in: value, dst: dst}
	s.copy()
	return s.dst
}

// mayHaveForbiddenName reports whether value contains proto, which all forbidden names have, or an escape of an ASCII letter.
func mayHaveForbiddenName(value []byte) bool {
	return bytes.Contains(value, []byte("proto")) || bytes.Contains(value, []byte(`\u00`))
}

// sanitizer copies a JSON text. It does not recurse, so nesting costs no more than length.
type sanitizer struct {
	in, dst []byte
	from    int // in[:from] is copied

	// inside has for each open bracket whether it opens an object that is the value of a member constructor; constructed reports it of the next value.
	inside      []bool
	constructed bool
}

func (s *sanitizer) copy() {
	for i := 0; i < len(s.in); {
		switch s.in[i] {
		case '{', '[':
			s.inside = append(s.inside, s.constructed && s.in[i] == '{')
			s.constructed = false
			i++
		case '}', ']':
			s.inside = s.inside[:max(0, len(s.inside)-1)]
			i++
		case ',':
			s.constructed = false
			i++
		case '"':
			i = s.string(i)
		default:
			i++
		}
	}
	s.dst = append(s.dst, s.in[s.from:]...)
}

// string handles the string that opens at i and returns where it ends.
func (s *sanitizer) string(i int) int {
	end := rawjson.StringEnd(s.in, i)
	if end < 0 {
		return len(s.in)
	}
	if rest := rawjson.TrimSpace(s.in[end:]); len(rest) == 0 || rest[0] != ':' {
		s.constructed = false
		return end
	}
	name := rawjson.Text(s.in[i:end]).Bytes()
	s.constructed = string(name) == constructorName
	bare := string(bytes.TrimLeft(name, "$"))
	n := len(s.inside)
	if bare == protoName || bare == prototypeName && n > 0 && s.inside[n-1] {
		s.dst = append(append(s.dst, s.in[s.from:i+1]...), '$')
		s.from = i + 1
	}
	return end
}

// sanitized writes a member from JSON of any origin; nil is null.
func sanitized(f *turn.Frames, name string, value chunk.Value) {
	f.Name(name)
	if len(value) == 0 {
		value = null
	}
	f.Dst = AppendSanitized(f.Dst, value)
}

// optional is sanitized that leaves out a missing member.
func optional(f *turn.Frames, name string, value chunk.Value) {
	if value != nil {
		sanitized(f, name, value)
	}
}

// pass writes the named members that the record has.
func pass(f *turn.Frames, it *turn.Item, names ...string) {
	for _, name := range names {
		optional(f, name, it.Get(name))
	}
}
