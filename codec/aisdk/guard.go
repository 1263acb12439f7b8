package aisdk

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
)

// The client refuses a chunk, and with it the rest of the stream, when anywhere
// in it an object has a member __proto__, or a member constructor that holds an
// object with a member prototype. What tools and applications say can have both.
// Such a name gets a $ before it, and so does one that would then look the same:
// $__proto__ becomes $$__proto__.

const (
	protoName       = "__proto__"
	constructorName = "constructor"
	prototypeName   = "prototype"
)

// guarded writes a member from JSON of anybody; nil is null.
func (o *out) guarded(name string, value []byte) {
	o.name(name)
	o.dst = appendGuarded(o.dst, value)
}

// appendGuarded appends a JSON value, on one line, with its forbidden names
// changed and nothing else.
func appendGuarded(dst []byte, v chunk.Value) []byte {
	if len(v) == 0 {
		return append(dst, null...)
	}
	if !suspicious(v) {
		return append(dst, v...)
	}
	g := guard{in: v}
	return g.copy(dst)
}

// suspicious reports whether a text may hold a forbidden name. Both have proto in
// them, unless letters of it are escapes.
func suspicious(v []byte) bool {
	return bytes.Contains(v, []byte("proto")) || bytes.Contains(v, []byte(`\u00`))
}

// guard copies a JSON text. It does not call itself: what is nested deep costs
// no more than what is long.
type guard struct{ in []byte }

// copy appends the text with names changed. inside says of every open bracket
// whether it is an object that a member constructor holds.
func (g *guard) copy(dst []byte) []byte {
	var inside []bool
	constructed := false // the value that begins is that of a member constructor
	from := 0
	for i := 0; i < len(g.in); {
		switch g.in[i] {
		case '{', '[':
			inside = append(inside, constructed && g.in[i] == '{')
			constructed = false
			i++
		case '}', ']':
			if len(inside) > 0 {
				inside = inside[:len(inside)-1]
			}
			i++
		case '"':
			end := stringEnd(g.in, i)
			if end < 0 {
				end = len(g.in)
			}
			if next := space(g.in, end); next < len(g.in) && g.in[next] == ':' {
				name := g.plain(i, end)
				constructed = string(name) == constructorName
				bare := string(bytes.TrimLeft(name, "$"))
				if bare == protoName || bare == prototypeName && len(inside) > 0 && inside[len(inside)-1] {
					dst = append(append(dst, g.in[from:i+1]...), '$')
					from = i + 1
				}
			} else {
				constructed = false
			}
			i = end
		case ',':
			constructed = false
			i++
		default:
			i++
		}
	}
	return append(dst, g.in[from:]...)
}

// plain is what the string between two places means.
func (g *guard) plain(start, end int) []byte {
	content := g.in[start+1 : max(start+1, end-1)]
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	text, err := unescape(nil, content)
	if err != nil {
		return content
	}
	return text
}
