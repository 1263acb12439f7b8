package dialect

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Object is a JSON object of an event. It notes what a reader has read, so that the rest can be kept, see Rests. The nil Object has no members.
type Object struct {
	whole chunk.Value
	list  []member
}

type member struct {
	name  rawjson.Text
	value chunk.Value
	read  bool
	inner []*Object // the value, or its elements, as far as they are objects that were read
}

// Read returns the object v, which must be valid, nil for another value.
func Read(v []byte) *Object {
	if rawjson.Kind(v) != '{' {
		return nil
	}
	o := &Object{whole: v, list: make([]member, 0, 8)}
	for name, value := range rawjson.Members(v) {
		o.list = append(o.list, member{name: name, value: value})
	}
	return o
}

func (o *Object) find(name string) *member {
	if o != nil {
		for i := range o.list {
			if o.list[i].name.Is(name) {
				return &o.list[i]
			}
		}
	}
	return nil
}

// Peek returns the value with a name, nil if there is none. It is not read by that.
func (o *Object) Peek(name string) chunk.Value {
	if m := o.find(name); m != nil {
		return m.value
	}
	return nil
}

// PeekText returns the string with a name, "" for another value. It is not read by that.
func (o *Object) PeekText(name string) string { return TextAt(o.Peek(name)) }

// Get reads the value with a name, nil if there is none.
func (o *Object) Get(name string) chunk.Value {
	m := o.find(name)
	if m == nil {
		return nil
	}
	m.read = true
	return m.value
}

// Unread notes that a value that was read has not been used.
func (o *Object) Unread(name string) {
	if m := o.find(name); m != nil {
		m.read = false
	}
}

// Value is Peek with nil for null: some clients write null for what they leave out.
func (o *Object) Value(name string) chunk.Value {
	if v := o.Peek(name); string(v) != "null" {
		return v
	}
	return nil
}

// Number returns the number with a name, nil for another value. It is not read by that.
func (o *Object) Number(name string) *chunk.Number { return numberAt(o.Peek(name)) }

// Reset notes that nothing was read, and returns the object.
func (o *Object) Reset() *Object {
	for i := range o.list {
		o.list[i].read, o.list[i].inner = false, nil
	}
	return o
}

// All returns the object. It is not read by that.
func (o *Object) All() chunk.Value {
	if o == nil {
		return nil
	}
	return o.whole
}

// GetAll reads all members, because the object is kept whole.
func (o *Object) GetAll() chunk.Value {
	if o == nil {
		return nil
	}
	for i := range o.list {
		o.list[i].read = true
	}
	return o.whole
}

// Text reads the string with a name. Another value is not read.
func (o *Object) Text(name string) (string, bool) {
	m := o.find(name)
	if m == nil {
		return "", false
	}
	s, ok := Text(m.value)
	m.read = m.read || ok
	return s, ok
}

// Or reads the string with a name, and returns other if there is none.
func (o *Object) Or(name, other string) string {
	if s, ok := o.Text(name); ok {
		return s
	}
	return other
}

// Maybe reads the string with a name, and returns nil if there is none.
func (o *Object) Maybe(name string) *string {
	if s, ok := o.Text(name); ok {
		return &s
	}
	return nil
}

// Flag reports whether the value with a name is true.
func (o *Object) Flag(name string) bool { return string(o.Peek(name)) == "true" }

// Object returns the object with a name, nil if there is none. Its members are read one by one.
func (o *Object) Object(name string) *Object {
	m := o.find(name)
	if m == nil || rawjson.Kind(m.value) != '{' {
		return nil
	}
	if m.inner == nil {
		m.inner = []*Object{Read(m.value)}
	}
	return m.inner[0]
}

// List returns the elements of the array with a name, nil for those that are not objects.
func (o *Object) List(name string) []*Object {
	m := o.find(name)
	if m == nil || rawjson.Kind(m.value) != '[' {
		return nil
	}
	if m.inner == nil {
		for v := range rawjson.Elements(m.value) {
			m.inner = append(m.inner, Read(v))
		}
	}
	return m.inner
}

// ReadElement reads an element of the array with a name that is not an object. List must have been called.
func (o *Object) ReadElement(name string, i int) { o.find(name).inner[i] = &Object{} }

// LeftOut has the members of the events of a dialect that are not kept: by the type of the event, or by "" for all types, paths whose names have dots between them.
// An element of an array has the path of the array. docs/reference/dialects.md says why.
type LeftOut map[string]names

// names are members; those of nil are left out with all that is in them, and of those with readText a string.
type names map[string]names

// readText is the name under which names has that a string at this place is read.
const readText = ""

// LeaveOut returns what has paths, with spaces between them, by the types of events, with spaces between them too.
func LeaveOut(rows map[string]string) LeftOut {
	out := LeftOut{}
	out.add(rows, "")
	return out
}

// Reads adds the strings that a reader takes from each event that it understands, if it does not note by itself what it reads. A path that ends with ".*" is that of any
// value.
func (l LeftOut) Reads(rows map[string]string) LeftOut {
	l.add(rows, "."+readText)
	return l
}

func (l LeftOut) add(rows map[string]string, end string) {
	for kinds, paths := range rows {
		for kind := range strings.SplitSeq(kinds, " ") {
			if l[kind] == nil {
				l[kind] = names{}
			}
			for path := range strings.FieldsSeq(paths) {
				whole, ofAny := strings.CutSuffix(path, ".*")
				if !ofAny {
					whole += end
				}
				l[kind].add(whole)
			}
		}
	}
}

func (n names) add(path string) {
	first, rest, deeper := strings.Cut(path, ".")
	switch below, known := n[first]; {
	case !deeper:
		n[first] = nil
	case !known:
		n[first] = names{}
		n[first].add(rest)
	case below != nil:
		below.add(rest)
	}
}

// below returns what is left out of a member, and whether all of it is.
func (n names) below(m *member) (in names, all bool) {
	in, known := n[string(m.name.Bytes())]
	if _, text := in[readText]; text && m.value[0] == '"' {
		return nil, true
	}
	return in, known && in == nil
}

// RestEvent is the name, behind the prefix of a dialect, of the custom events that hold the rest of an event.
const RestEvent = "rest"

// Rests keeps what a reader has not read of events. Servers repeat some members in each event, so what one has that the one before it of the same type had too is
// not kept again.
type Rests struct{ last map[string]string }

// maxRests bounds the number of types whose last rest is known.
const maxRests = 64

// Of returns what was not read of an event, and is not left out: nil, or an object with the type of the event. Numbers are no rest of their own.
func (r *Rests) Of(o *Object, kind string, left LeftOut) chunk.Value {
	_, typed := o.Text("type")
	rest := o.rest(nil, left[""], left[kind])
	if rest == nil || r.last[kind] == string(rest) {
		return nil
	}
	if r.last == nil || len(r.last) >= maxRests {
		r.last = make(map[string]string)
	}
	r.last[kind] = string(rest)
	if !typed {
		return rest
	}
	out := append(append(chunk.Value(`{"type":`), o.Peek("type")...), ',')
	return append(out, rest[1:]...)
}

// rest appends the object of what was not read, or returns nil for none.
func (o *Object) rest(dst []byte, all, ofKind names) []byte {
	if o == nil {
		return nil
	}
	begin := len(dst)
	for i := range o.list {
		m := &o.list[i]
		if m.read {
			continue
		}
		inAll, out := all.below(m)
		inKind, outToo := ofKind.below(m)
		if out || outToo {
			continue
		}
		mark := len(dst)
		if mark == begin {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(append(dst, m.name...), ':')
		if more := m.rest(dst, inAll, inKind); more != nil {
			dst = more
		} else {
			dst = dst[:mark]
		}
	}
	if len(dst) == begin {
		return nil
	}
	return append(dst, '}')
}

func (m *member) rest(dst []byte, all, ofKind names) []byte {
	if m.inner == nil && (all != nil || ofKind != nil) {
		switch m.value[0] {
		case '{':
			m.inner = []*Object{Read(m.value)}
		case '[':
			for v := range rawjson.Elements(m.value) {
				m.inner = append(m.inner, Read(v))
			}
		}
	}
	switch {
	case m.inner == nil && hasText(m.value):
		return append(dst, m.value...)
	case m.inner == nil:
		return nil
	case m.value[0] == '{':
		return m.inner[0].rest(dst, all, ofKind)
	}
	begin, i := len(dst), 0
	for v := range rawjson.Elements(m.value) {
		mark := len(dst)
		dst = append(dst, ',')
		more := m.inner[i].rest(dst, all, ofKind)
		switch {
		case more != nil:
			dst = more
		case m.inner[i] == nil && hasText(v):
			dst = append(dst, v...)
		default:
			dst = dst[:mark]
		}
		i++
	}
	if len(dst) == begin {
		return nil
	}
	dst[begin] = '['
	return append(dst, ']')
}

// hasText reports whether a string in a value is not empty.
func hasText(v []byte) bool {
	switch rawjson.Kind(v) {
	case '"':
		return len(v) > len(`""`)
	case '{':
		for _, value := range rawjson.Members(v) {
			if hasText(value) {
				return true
			}
		}
	case '[':
		for value := range rawjson.Elements(v) {
			if hasText(value) {
				return true
			}
		}
	}
	return false
}
