// Package guard makes JSON of anybody fit for the AI SDK's client, which refuses
// a chunk, and with it the rest of the stream, when anywhere in it an object has
// a member __proto__, or a member constructor that holds an object with a member
// prototype. What tools and applications say can have both.
//
// Such a name gets a $ before it, and so does one that would then look the same:
// $__proto__ becomes $$__proto__. Nothing else changes, so that numbers of any
// size and halves of surrogate pairs stay what they are.
package guard

import (
	"bytes"
	"strconv"
)

const (
	protoName       = "__proto__"
	constructorName = "constructor"
	prototypeName   = "prototype"
)

// Append appends a JSON value with its forbidden names changed. On text that is
// no JSON the result means nothing.
func Append(dst, value []byte) []byte {
	if !suspicious(value) {
		return append(dst, value...)
	}
	g := guard{in: value, dst: dst}
	g.copy()
	return g.dst
}

// suspicious reports whether a text may hold a forbidden name. Both have proto in
// them, unless a letter of it is an escape.
func suspicious(value []byte) bool {
	return bytes.Contains(value, []byte("proto")) || bytes.Contains(value, []byte(`\u00`))
}

// guard copies a JSON text. It does not call itself: what is nested deep costs no
// more than what is long.
type guard struct {
	in, dst []byte
	from    int // in[:from] is copied

	// inside says of every open bracket whether it is an object that a member
	// constructor holds; constructed, whether the value that begins is one.
	inside      []bool
	constructed bool
}

func (g *guard) copy() {
	for i := 0; i < len(g.in); {
		switch g.in[i] {
		case '{', '[':
			g.inside = append(g.inside, g.constructed && g.in[i] == '{')
			g.constructed = false
			i++
		case '}', ']':
			g.inside = g.inside[:max(0, len(g.inside)-1)]
			i++
		case ',':
			g.constructed = false
			i++
		case '"':
			i = g.string(i)
		default:
			i++
		}
	}
	g.dst = append(g.dst, g.in[g.from:]...)
}

// string looks at the string that opens at i and returns where it ends.
func (g *guard) string(i int) int {
	end := stringEnd(g.in, i)
	next := end
	for next < len(g.in) && (g.in[next] == ' ' || g.in[next] == '\t' || g.in[next] == '\n' || g.in[next] == '\r') {
		next++
	}
	if next == len(g.in) || g.in[next] != ':' {
		g.constructed = false
		return end
	}
	name := plain(g.in[i+1 : max(i+1, end-1)])
	g.constructed = string(name) == constructorName
	bare := string(bytes.TrimLeft(name, "$"))
	n := len(g.inside)
	if bare == protoName || bare == prototypeName && n > 0 && g.inside[n-1] {
		g.dst = append(append(g.dst, g.in[g.from:i+1]...), '$')
		g.from = i + 1
	}
	return end
}

// stringEnd is the place behind the string that opens at i.
func stringEnd(in []byte, i int) int {
	for i++; i < len(in); i++ {
		switch in[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(in)
}

// plain is what the content of a string means, as far as it is ASCII: a name with
// anything else in it is not forbidden.
func plain(content []byte) []byte {
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	var out []byte
	for i := 0; i < len(content); i++ {
		if content[i] == '\\' && i+5 < len(content) && content[i+1] == 'u' {
			if u, err := strconv.ParseUint(string(content[i+2:i+6]), 16, 16); err == nil && u < 0x80 {
				out = append(out, byte(u))
				i += 5
				continue
			}
		}
		out = append(out, content[i])
	}
	return out
}
