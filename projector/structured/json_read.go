package structured

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// parse makes a tree of one JSON value. Text over the limits is refused before
// more than the limits was built.
func parse(data []byte, depth, values int) (*node, *RefusedError) {
	if !utf8.Valid(data) {
		return nil, &RefusedError{Want: "JSON in UTF-8", Got: "bytes that are none"}
	}
	// What is left of invalid text in UTF-8 are escapes of lone surrogates, which
	// we keep. The decoder takes them all for one character, so we compare names.
	r := reader{
		dec:    jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)),
		values: values,
	}
	n, bad := r.value(depth)
	if bad != nil {
		return nil, bad
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &RefusedError{Want: "one JSON value", Got: "more behind it"}
	}
	return n, nil
}

type reader struct {
	dec    *jsontext.Decoder
	values int // how many may still come
}

func (r *reader) value(depth int) (*node, *RefusedError) {
	if r.values--; r.values < 0 {
		return nil, &RefusedError{Want: "fewer values", Got: "too many"}
	}
	kind := r.dec.PeekKind()
	if kind == '{' || kind == '[' {
		if depth == 0 {
			return nil, &RefusedError{Want: "fewer levels", Got: "too many"}
		}
		return r.container(depth)
	}
	raw, bad := r.raw()
	if bad != nil {
		return nil, bad
	}
	switch kind {
	case 'n':
		return &node{kind: null}, nil
	case 'f':
		return &node{kind: boolFalse}, nil
	case 't':
		return &node{kind: boolTrue}, nil
	case '"':
		return &node{kind: text, text: unquote(raw)}, nil
	default:
		return &node{kind: number, text: bytes.Clone(raw)}, nil
	}
}

// container reads an array or an object.
func (r *reader) container(depth int) (*node, *RefusedError) {
	open, err := r.dec.ReadToken()
	if err != nil {
		return nil, r.syntax()
	}
	n := &node{kind: array}
	if open.Kind() == '{' {
		n.kind = object
	}
	for {
		switch r.dec.PeekKind() {
		case ']', '}':
			if _, err := r.dec.ReadToken(); err != nil {
				return nil, r.syntax()
			}
			return n, nil
		}
		if bad := r.item(n, depth); bad != nil {
			return nil, bad
		}
	}
}

// item reads an element of an array or a member of an object.
func (r *reader) item(n *node, depth int) *RefusedError {
	var name string
	if n.kind == object {
		raw, bad := r.raw()
		if bad != nil {
			return bad
		}
		if name = unquoteName(raw); len(name) > MaxName {
			return &RefusedError{Want: fmt.Sprintf("names of at most %d bytes", MaxName), Got: "a longer one"}
		}
		if n.find(name) >= 0 {
			return &RefusedError{Want: "each name once", Got: "two members of one name"}
		}
	}
	v, bad := r.value(depth - 1)
	if bad != nil {
		return bad
	}
	if n.kind == object {
		n.add(name, v)
	} else {
		n.items = append(n.items, v)
	}
	return nil
}

// raw is the text of the next value or name. It belongs to the decoder.
func (r *reader) raw() ([]byte, *RefusedError) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, r.syntax()
	}
	return raw, nil
}

func (r *reader) syntax() *RefusedError {
	return &RefusedError{Want: "JSON", Got: fmt.Sprintf("something else behind byte %d", r.dec.InputOffset())}
}

// unquoteName is unquote for names, which seldom have escapes.
func unquoteName(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	return string(unquote(raw))
}

// unquote reads a JSON string into WTF-8. The decoder has accepted it.
func unquote(raw []byte) []byte {
	out, err := jsontext.AppendUnquote(nil, raw)
	if err == nil {
		return out
	}
	out = out[:0] // a lone surrogate was lost
	for i := 1; i < len(raw)-1; {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		n := 2
		if raw[i+1] == 'u' {
			n = 6
		}
		piece, err := jsontext.AppendUnquote(nil, `"`+string(raw[i:i+n])+`"`)
		if err != nil {
			piece = surrogate(raw[i+2 : i+6])
		}
		out = join(out, string(piece)) // two halves, each an escape, are one character
		i += n
	}
	return out
}

// surrogate is the WTF-8 of the surrogate whose hexadecimal digits are given.
func surrogate(digits []byte) []byte {
	var u rune
	for _, d := range digits {
		u = u<<4 | rune(d&0xF)
		if d > '9' {
			u += 9
		}
	}
	return []byte{0xE0 | byte(u>>12), 0x80 | byte(u>>6&0x3F), 0x80 | byte(u&0x3F)}
}
