package view

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
)

// rule says what is shown of a JSON value. A nil rule shows all of it.
type rule struct {
	hidden  bool
	instead []byte // what stands for a hidden member; nil: it is left out

	// members has the rules for those of an object, or of each object in an array.
	// nil shows all of them.
	members map[string]*rule
	closed  bool // members without a rule are left out

	// pick, if not nil, chooses the rule of an element by what is in it. One that
	// it reports false for is left out.
	pick func(element []byte) (*rule, bool)

	// keep, if not nil, judges an object that was rewritten.
	keep func(object []byte) bool
}

// whole reports whether everything is shown that the rule knows of.
func (r *rule) whole() bool {
	if r == nil {
		return true
	}
	if r.hidden {
		return false
	}
	for _, m := range r.members {
		if !m.whole() {
			return false
		}
	}
	return true
}

// at is the rule of a member further in, and whether it is shown at all.
func (r *rule) at(path ...string) (*rule, bool) {
	for _, name := range path {
		if r == nil || !r.hidden && r.members == nil {
			return nil, true
		}
		m, known := r.members[name]
		if r.hidden || !known && r.closed {
			return nil, false
		}
		r = m
	}
	return r, r == nil || !r.hidden
}

// shows reports whether all of a member is shown.
func (r *rule) shows(path ...string) bool {
	m, shown := r.at(path...)
	return shown && m.whole()
}

// ruleOf shows every member that the catalogue knows, and others if extra.
func ruleOf(shapes []chunk.Shape, extra bool) *rule {
	r := &rule{members: make(map[string]*rule, len(shapes)), closed: !extra}
	for _, s := range shapes {
		r.members[s.Name] = nil
		if s.Members != nil {
			r.members[s.Name] = ruleOf(s.Members, extra)
		}
	}
	return r
}

var (
	errNoMember = errors.New("the catalogue has no such member")
	errNoValue  = errors.New("this is no JSON")
)

// hide takes a member of the catalogue out of what r shows.
func (r *rule) hide(shapes []chunk.Shape, path []string) error {
	shape, known := find(shapes, path[0])
	m := r.members[path[0]]
	switch {
	case !known && r.closed:
		return fmt.Errorf("%q: %w", path[0], errNoMember) // and is hidden with all others
	case m != nil && m.hidden:
		return nil
	case len(path) == 1:
		if known && shape.Required && shape.Blank == nil {
			return fmt.Errorf("%q cannot be hidden: readers go by it", path[0])
		}
		m = &rule{hidden: true}
		if shape.Required {
			m.instead = shape.Blank
		}
		r.members[path[0]] = m
		return nil
	case !known, shape.Any:
		r.members[path[0]] = m.without(path[1:])
		return nil
	case shape.Members == nil:
		return fmt.Errorf("%q has no members", path[0])
	}
	return m.hide(shape.Members, path[1:])
}

// without is r with a member hidden of a value that is not the catalogue's.
func (r *rule) without(path []string) *rule {
	if len(path) == 0 {
		return &rule{hidden: true}
	}
	if r == nil {
		r = &rule{members: make(map[string]*rule)}
	}
	if !r.hidden {
		r.members[path[0]] = r.members[path[0]].without(path[1:])
	}
	return r
}

func find(shapes []chunk.Shape, name string) (chunk.Shape, bool) {
	for _, s := range shapes {
		if s.Name == name {
			return s, true
		}
	}
	return chunk.Shape{}, false
}

// append appends what r shows of a value. It fails on what is no JSON; the value
// must not be shown then.
func (r *rule) append(dst, value []byte) ([]byte, error) {
	if r == nil {
		return append(dst, value...), nil
	}
	kind := jsontext.Value(value).Kind()
	if r.pick != nil && kind != '[' {
		return append(dst, "null"...), nil
	}
	switch kind {
	case '{':
		return r.appendObject(dst, value)
	case '[':
		return r.appendArray(dst, value)
	case '"':
		// Part of the value is hidden, and here it is a text instead: maybe the same
		// object, encoded. Nobody can tell what is in it.
		return append(dst, "null"...), nil
	case jsontext.KindInvalid:
		return dst, errNoValue
	}
	return append(dst, value...), nil
}

func (r *rule) appendObject(dst, object []byte) ([]byte, error) {
	dst = append(dst, '{')
	start := len(dst)
	err := eachMember(object, func(name, raw, value []byte) error {
		m, known := r.members[string(name)]
		if !known && r.closed || m != nil && m.hidden && m.instead == nil {
			return nil
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(dst, raw...), ':')
		if m != nil && m.hidden {
			dst = append(dst, m.instead...)
			return nil
		}
		var err error
		dst, err = m.append(dst, value)
		return err
	})
	return append(dst, '}'), err
}

func (r *rule) appendArray(dst, array []byte) ([]byte, error) {
	dst = append(dst, '[')
	start := len(dst)
	err := eachElement(array, func(value []byte) error {
		before := len(dst)
		if len(dst) > start {
			dst = append(dst, ',')
		}
		from := len(dst)
		e := r
		if r.pick != nil {
			var shown bool
			if e, shown = r.pick(value); !shown {
				dst = dst[:before]
				return nil
			}
		}
		var err error
		if dst, err = e.append(dst, value); err == nil && e != nil && e.keep != nil && !e.keep(dst[from:]) {
			dst = dst[:before]
		}
		return err
	})
	return append(dst, ']'), err
}

// eachMember visits the members of a JSON object: the name, the name as it is
// written, the value. A name with half a surrogate pair in it is none that a
// rule could mean, and is given as "".
func eachMember(object []byte, visit func(name, raw, value []byte) error) error {
	dec := tokens(object)
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		raw, err := next(dec, object)
		if err != nil {
			return err
		}
		value, err := next(dec, object)
		if err != nil {
			return err
		}
		if err := visit(plain(raw), raw, value); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// plain is what a name means that is written as raw.
func plain(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	name, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return nil
	}
	return name
}

// eachElement visits the elements of a JSON array.
func eachElement(array []byte, visit func(value []byte) error) error {
	dec := tokens(array)
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		value, err := next(dec, array)
		if err != nil {
			return err
		}
		if err := visit(value); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// tokens reads text as chunk.Decode does, which lets lone surrogate escapes
// through. Each member is judged by its own name, so a second one of the same
// name is hidden as the first.
func tokens(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// next is the next value of dec, as a piece of the text that dec reads.
func next(dec *jsontext.Decoder, text []byte) ([]byte, error) {
	value, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := dec.InputOffset()
	return text[end-int64(len(value)) : end], nil
}
