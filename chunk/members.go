package chunk

import (
	"slices"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// Members holds the members of one chunk as JSON text, for code that copies them unchanged or reads a few.
type Members struct {
	d     decoder
	rest  []member // without the base members
	kind  Type
	known bool
}

// Read reads the members of the chunk in data. It returns the error that Decode would return, and builds no body. The results of the other methods are
// parts of data, or of a copy if data has line breaks; they are valid until the next Read.
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
	text := rawjson.TrimSpace(data)
	out, err := outlineOf(text, m.rest[:0])
	if err == nil && out.newline {
		text = rawjson.AppendCompact(make([]byte, 0, len(text)), text)
		out, err = outlineOf(text, out.members[:0])
	}
	if err != nil {
		return err
	}
	m.d = decoder{text: text, plain: out.unescaped}
	m.rest = m.d.takeBase(out.members)
	m.kind, m.known, err = m.d.check(m.rest)
	if err != nil {
		err.Type = m.kind
	}
	return err
}

// Type returns the type of the chunk and whether the chunk schema has it. Decode makes a chunk of another type an Opaque.
func (m *Members) Type() (kind Type, known bool) { return m.kind, m.known }

// JSON returns the whole chunk, on one line.
func (m *Members) JSON() []byte { return m.d.text }

// Get returns the member with this name; for further names, the member of the object so far. It returns nil if a member is missing.
func (m *Members) Get(name string, inner ...string) Value {
	return slices.Clip(rawjson.Get(m.outer(name), inner...))
}

func (m *Members) outer(name string) []byte {
	if b := baseMember(name); b >= 0 {
		return m.d.base[b]
	}
	for _, member := range m.rest {
		if string(m.d.name(member)) == name {
			return member.value
		}
	}
	return nil
}

// Text returns a string member in WTF-8, "" if it is missing or not a string.
func (m *Members) Text(name string, inner ...string) string {
	v := m.Get(name, inner...)
	if len(v) == 0 || v[0] != '"' {
		return ""
	}
	return string(rawjson.Text(v).Bytes())
}
