package chunk

import "slices"

// Members are the members of one chunk as they lie in its JSON: for those who pass
// them on as they came, or ask for a few.
type Members struct {
	d     decoder
	rest  []member // without the base members
	kind  Type
	known bool
}

// Read takes the members of the chunk in data. It refuses what Decode refuses,
// with the same error, and builds nothing. What the Members give is part of data,
// or of a copy without line breaks if it has any; it holds until the next Read.
func (m *Members) Read(data []byte) error {
	if err := m.read(data); err != nil { // a nil *FieldError must not become an error
		*m = Members{rest: m.rest[:0]}
		return err
	}
	return nil
}

func (m *Members) read(data []byte) *FieldError {
	if m.rest == nil {
		m.rest = make([]member, 0, 16) // most chunks have fewer
	}
	text := trimSpace(data)
	out, err := outlineOf(text, m.rest[:0])
	if err == nil && out.newline {
		text = compact(text)
		out, err = outlineOf(text, out.members[:0])
	}
	if err != nil {
		return err
	}
	m.d = decoder{text: text, plain: out.plain}
	m.rest = m.d.takeBase(out.members)
	m.kind, m.known, err = m.d.check(m.rest)
	if err != nil {
		err.Type = m.kind
	}
	return err
}

// Type of the chunk, and whether the catalogue knows it: if not, it is one that
// Decode makes an Opaque.
func (m *Members) Type() (kind Type, known bool) { return m.kind, m.known }

// JSON is the whole chunk, on one line.
func (m *Members) JSON() []byte { return m.d.text }

// Get is the member of a name, or, of several names, the member of that name in
// the object that the one before is; nil when there is none.
func (m *Members) Get(name string, inner ...string) Value {
	value := m.outer(name)
	for _, name := range inner {
		value = m.inner(value, name)
	}
	return slices.Clip(value)
}

func (m *Members) outer(name string) []byte {
	if b := baseMember(name); b >= 0 {
		return m.d.base[b]
	}
	for _, member := range m.rest {
		if string(m.d.name(m.d.text, member)) == name {
			return member.value.of(m.d.text)
		}
	}
	return nil
}

func (m *Members) inner(value []byte, name string) []byte {
	if len(value) == 0 || value[0] != '{' {
		return nil
	}
	for member := range membersOf(value) {
		if string(m.d.name(value, member)) == name {
			return member.value.of(value)
		}
	}
	return nil
}

// Text is what such a member means that is a string, in WTF-8; "" when it is none.
func (m *Members) Text(name string, inner ...string) string {
	v := m.Get(name, inner...)
	if len(v) == 0 || v[0] != '"' {
		return ""
	}
	return string(plain(v[1 : len(v)-1]))
}
