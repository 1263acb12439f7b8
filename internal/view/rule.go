package view

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// rule determines what is shown of a JSON value. A nil rule shows all of it.
type rule struct {
	hidden      bool
	replacement []byte // written in place of a hidden member; nil: the member is left out

	// masked shows the names of members, the structure, booleans and null, and maskedValue in place of each text and number.
	masked bool

	// members has the rules for those of an object, or of each object in an array. The others are shown, or masked if the value is.
	members map[string]*rule
	closed  bool // members without a rule are left out

	// selectRule, if not nil, selects the rule of an element by its content. An element for which it reports false is left out.
	selectRule func(element []byte) (*rule, bool)

	// accept, if not nil, reports whether a rewritten object is kept.
	accept func(object []byte) bool

	// heading, if not nil, reports whether an element is the heading of those behind it. A heading is left out if elements behind it are, and none is shown.
	heading func(element []byte) bool
}

// showsAll reports whether the rule hides no member that it names.
func (r *rule) showsAll() bool {
	if r == nil {
		return true
	}
	if r.hidden || r.masked {
		return false
	}
	for _, m := range r.members {
		if !m.showsAll() {
			return false
		}
	}
	return true
}

// at returns the rule of a nested member, and whether it is shown at all.
func (r *rule) at(path ...string) (*rule, bool) {
	for _, name := range path {
		if r == nil || !r.hidden && !r.masked && r.members == nil {
			return nil, true
		}
		if r.masked {
			return r, true
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
	return shown && m.showsAll()
}

// ruleOf returns a rule that shows every member of the chunk schema, and other members if extra.
func ruleOf(shapes []chunk.MemberSchema, extra bool) *rule {
	r := &rule{members: make(map[string]*rule, len(shapes)), closed: !extra}
	for _, s := range shapes {
		r.members[s.Name] = nil
		if s.Members != nil {
			r.members[s.Name] = ruleOf(s.Members, extra)
		}
	}
	return r
}

// recordRule is ruleOf for a record. What chunk.PartMember says about the kind of a part is always shown: a part would otherwise be another one in the stream than in a
// page. What it has besides is shown like other members that the schema does not have.
func recordRule(t chunk.Type, extra bool) *rule {
	r := ruleOf(shapesOf(t), extra)
	if !extra {
		r.members[chunk.PartMember] = open("begins", "dynamic", "transient", "id")
	}
	return r
}

var (
	errNoMember = errors.New("no such member in the chunk schema")
	errNoValue  = errors.New("not JSON")
)

// hide hides a member of the chunk schema.
func (r *rule) hide(shapes []chunk.MemberSchema, path []string) error {
	shape, known := find(shapes, path[0])
	m := r.members[path[0]]
	switch {
	case !known && r.closed:
		return fmt.Errorf("%q: %w", path[0], errNoMember) // and is hidden with all others
	case m != nil && m.hidden:
		return nil
	case len(path) == 1:
		if known && shape.Required && shape.Empty == nil {
			return fmt.Errorf("%q cannot be hidden: readers depend on it", path[0])
		}
		m = &rule{hidden: true}
		if shape.Required {
			m.replacement = shape.Empty
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

// without returns r with a member hidden of a value that the chunk schema does not describe.
func (r *rule) without(path []string) *rule {
	if len(path) == 0 {
		return &rule{hidden: true}
	}
	if r == nil {
		r = &rule{}
	}
	if r.hidden {
		return r
	}
	m, known := r.members[path[0]]
	if !known && r.masked {
		m = &rule{masked: true}
	}
	if r.members == nil {
		r.members = make(map[string]*rule)
	}
	r.members[path[0]] = m.without(path[1:])
	return r
}

func find(shapes []chunk.MemberSchema, name string) (chunk.MemberSchema, bool) {
	for _, s := range shapes {
		if s.Name == name {
			return s, true
		}
	}
	return chunk.MemberSchema{}, false
}

// append appends what r shows of a valid value.
func (r *rule) append(dst, value []byte) []byte {
	if r == nil {
		return append(dst, value...)
	}
	first := rawjson.Kind(value)
	if r.selectRule != nil && first != '[' {
		return append(dst, "null"...)
	}
	switch first {
	case '{':
		return r.appendObject(dst, value)
	case '[':
		return r.appendArray(dst, value)
	case 't', 'f', 'n':
		return append(dst, value...)
	}
	switch {
	case r.masked:
		return append(dst, maskedValue...)
	case first == '"':
		// A part of the value is hidden, and here it is a text instead, maybe the same object encoded. What is in it is not known.
		return append(dst, "null"...)
	}
	return append(dst, value...)
}

func (r *rule) appendObject(dst, object []byte) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for name, value := range rawjson.Members(object) {
		m, known := r.members[string(name.Bytes())]
		if !known && r.closed || m != nil && m.hidden && m.replacement == nil {
			continue
		}
		if !known && r.masked {
			m = maskAll
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), ':')
		if m != nil && m.hidden {
			dst = append(dst, m.replacement...)
			continue
		}
		dst = m.append(dst, value)
	}
	return append(dst, '}')
}

func (r *rule) appendArray(dst, array []byte) []byte {
	dst = append(dst, '[')
	start := len(dst)
	var under section
	for value := range rawjson.Elements(array) {
		begins := r.heading != nil && r.heading(value)
		if begins {
			dst = under.end(dst)
		}
		before := len(dst)
		if len(dst) > start {
			dst = append(dst, ',')
		}
		from := len(dst)
		e := r
		if r.selectRule != nil {
			var shown bool
			if e, shown = r.selectRule(value); !shown {
				dst, under.omits = dst[:before], true
				continue
			}
		}
		if dst = e.append(dst, value); e != nil && e.accept != nil && !e.accept(dst[from:]) {
			dst, under.omits = dst[:before], true
			continue
		}
		under = section{open: begins, at: before}
	}
	return append(under.end(dst), ']')
}

// section is the end of an array that is being written.
type section struct {
	open  bool // the last element is a heading
	at    int  // where the last element begins
	omits bool // an element after the last one was left out
}

// end returns dst without a heading whose elements were all left out.
func (s *section) end(dst []byte) []byte {
	if s.open && s.omits {
		dst = dst[:s.at]
	}
	*s = section{}
	return dst
}

// maxLevels bounds the nesting of what a view reads.
const maxLevels = 10_000

// check returns an error for text that is not JSON: none of it may be shown. Names may occur twice, because each member is shown or hidden by its own
// name.
func check(text []byte) error {
	if _, ok := rawjson.Scan(text, rawjson.Limits{Levels: maxLevels}); !ok {
		return errNoValue
	}
	return nil
}
