package chunk

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Decode reads the JSON of one chunk or control record and validates it. An
// unknown type becomes an Opaque body. Errors are *FieldError (ErrInvalid).
// The result does not share memory with data.
//
// The JSON must be one object in UTF-8 within the limits of this package, no
// member twice, nothing but white space around it. Member names are
// case-sensitive. An absent member of type "any" is read as null, an absent
// step as 0; members the catalogue does not know are kept in Extra.
func Decode(data []byte) (Chunk, error) {
	var room [16]member
	d, err := newDecoder(data, room[:])
	if err != nil {
		return Chunk{}, err
	}
	c, err := d.chunk()
	if err != nil {
		err.Type = d.kind
		return Chunk{}, err
	}
	return c, nil
}

// decoder reads one chunk from text that is valid JSON and within the limits.
type decoder struct {
	outline
	text []byte
	kind Type
	base [len(baseNames)]int // places of the base members, -1 when absent
	rest []int               // places of all others
}

var baseNames = [...]string{"type", "agentId", "agentType", "timestamp", "step"}

const (
	baseType = iota
	baseAgentID
	baseAgentType
	baseTimestamp
	baseStep
)

func newDecoder(data []byte, room []member) (*decoder, *FieldError) {
	data = trimSpace(data)
	out, err := trace(data, room)
	if err == nil {
		err = checkGrammar(data, out.loneEscape)
	}
	if err == nil && data[0] != '{' {
		err = &FieldError{Want: "an object", Got: wordFor(data)}
	}
	if err != nil {
		return nil, err
	}
	return &decoder{outline: out, text: data}, nil
}

func (d *decoder) chunk() (Chunk, *FieldError) {
	var room [16]int
	d.sort(room[:0])
	kind, err := d.baseString(baseType)
	if err != nil {
		return Chunk{}, err
	}
	p, known := plans[Type(kind)]
	if !known {
		return d.opaque(Type(kind))
	}
	d.kind = p.kind
	c, err := d.head()
	if err != nil {
		return Chunk{}, err
	}
	v := reflect.New(p.typ).Elem()
	if c.Extra, err = d.fill(p, v, d.text, d.members, d.rest); err != nil {
		return Chunk{}, err
	}
	c.Body = v.Interface().(Body)
	return c, checkBody(c.Body)
}

// sort finds the base members.
func (d *decoder) sort(room []int) {
	d.base = [...]int{-1, -1, -1, -1, -1}
	d.rest = room
	for i, m := range d.members {
		name := m.name.of(d.text)
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unescape(name)
		}
		if b := slices.Index(baseNames[:], string(name)); b >= 0 {
			d.base[b] = i
		} else {
			d.rest = append(d.rest, i)
		}
	}
}

// head reads the base members.
func (d *decoder) head() (c Chunk, err *FieldError) {
	if c.AgentID, err = d.baseString(baseAgentID); err != nil {
		return c, err
	}
	if c.AgentType, err = d.baseString(baseAgentType); err != nil {
		return c, err
	}
	if c.Timestamp, err = d.baseInteger(baseTimestamp); err != nil {
		return c, err
	}
	if d.base[baseStep] >= 0 {
		if c.Step, err = d.baseInteger(baseStep); err != nil {
			return c, err
		}
	}
	return c, c.checkHead()
}

func (d *decoder) baseValue(b int) []byte {
	if d.base[b] < 0 {
		return nil
	}
	return d.members[d.base[b]].value.of(d.text)
}

func (d *decoder) baseString(b int) (string, *FieldError) {
	text := d.baseValue(b)
	if len(text) == 0 || text[0] != '"' {
		return "", &FieldError{Field: baseNames[b], Want: "a string", Got: wordFor(text)}
	}
	return unquoted(text[1 : len(text)-1]), nil
}

func (d *decoder) baseInteger(b int) (int64, *FieldError) {
	text := d.baseValue(b)
	n, ok := integer(text)
	if !ok {
		return 0, &FieldError{Field: baseNames[b], Want: kindWords[kindInteger], Got: wordFor(text)}
	}
	return n, nil
}

// fill reads the members at the given places into v, a struct of plan p, and
// returns those that p does not know.
func (d *decoder) fill(p *plan, v reflect.Value, text []byte, members []member, places []int) (extra []Member, err *FieldError) {
	var room [16]int // a struct has fewer fields
	at := room[:len(p.fields)]
	for i := range at {
		at[i] = -1
	}
	for _, place := range places {
		m := members[place]
		name := m.name.of(text)
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unescape(name)
		}
		if i := p.find(name); i >= 0 {
			at[i] = place
		} else {
			extra = append(extra, Member{Name: string(name), Value: d.value(m.value.of(text))})
		}
	}
	for i := range p.fields {
		f := &p.fields[i]
		var value []byte
		if at[i] >= 0 {
			value = members[at[i]].value.of(text)
		}
		if err := d.field(f, v.Field(f.index), value); err != nil {
			return nil, err.under(f.name)
		}
	}
	return extra, nil
}

// field reads one member; text is nil when it is absent.
func (d *decoder) field(f *field, v reflect.Value, text []byte) *FieldError {
	switch {
	case text == nil && f.optional:
		return nil
	case text == nil && f.kind == kindAny:
		text = []byte("null")
	case text == nil:
		return &FieldError{Want: f.words}
	case f.nullable && text[0] == 'n':
		return nil
	}
	if f.pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if !d.set(f, v, text) {
		return &FieldError{Want: f.words, Got: wordFor(text)}
	}
	switch f.kind {
	case kindString:
		return f.checkString(v.String())
	case kindNumber:
		return checkNumber(v.String())
	case kindStruct:
		return d.object(f.of, v, text)
	case kindStructs:
		return d.array(f.of, v, text)
	default:
		return nil
	}
}

// set stores a simple value, or says that text has the wrong type.
func (d *decoder) set(f *field, v reflect.Value, text []byte) bool {
	first := text[0]
	switch f.kind {
	case kindString:
		if first != '"' {
			return false
		}
		v.SetString(unquoted(text[1 : len(text)-1]))
	case kindBool:
		if first != 't' && first != 'f' {
			return false
		}
		v.SetBool(first == 't')
	case kindInteger:
		n, ok := integer(text)
		if !ok {
			return false
		}
		v.SetInt(n)
	case kindNumber:
		if first != '-' && (first < '0' || first > '9') {
			return false
		}
		v.SetString(string(text))
	case kindAny:
		v.SetBytes(d.value(text))
	case kindObject:
		if first != '{' {
			return false
		}
		v.SetBytes(d.value(text))
	case kindStruct:
		return first == '{'
	case kindStructs:
		return first == '['
	}
	return true
}

func (d *decoder) object(p *plan, v reflect.Value, text []byte) *FieldError {
	var memberRoom [8]member
	var placeRoom [8]int
	members, places := memberRoom[:0], placeRoom[:0]
	for m := range membersOf(text) {
		places = append(places, len(members))
		members = append(members, m)
	}
	extra, err := d.fill(p, v, text, members, places)
	if err == nil && extra != nil {
		v.Field(p.extra).Set(reflect.ValueOf(extra))
	}
	return err
}

func (d *decoder) array(p *plan, v reflect.Value, text []byte) *FieldError {
	i := 0
	for elem := range elements(text) {
		if elem[0] != '{' {
			return (&FieldError{Want: "an object", Got: wordFor(elem)}).under(strconv.Itoa(i))
		}
		v.Grow(1)
		v.SetLen(i + 1)
		if err := d.object(p, v.Index(i), elem); err != nil {
			return err.under(strconv.Itoa(i))
		}
		i++
	}
	return nil
}

// value copies the text of a value, on one line.
func (d *decoder) value(text []byte) Value {
	if d.newline && bytes.ContainsAny(text, "\n\r") {
		return compact(text)
	}
	return bytes.Clone(text)
}

// opaque keeps a chunk of a type that is not of the catalogue. Its base members
// are read when they are what they should be; only the agentId must be.
func (d *decoder) opaque(kind Type) (c Chunk, err *FieldError) {
	if err := checkOpaqueType(kind); err != nil {
		return Chunk{}, err
	}
	d.kind = kind
	if c.AgentID, err = d.baseString(baseAgentID); err != nil {
		return Chunk{}, err
	}
	if err := checkAgentID(c.AgentID); err != nil {
		return Chunk{}, err
	}
	if s, err := d.baseString(baseAgentType); err == nil {
		c.AgentType = s
	}
	if n, err := d.baseInteger(baseTimestamp); err == nil && checkTimestamp(n) == nil {
		c.Timestamp = n
	}
	if n, err := d.baseInteger(baseStep); err == nil && checkStep(n) == nil {
		c.Step = n
	}
	c.Body = Opaque{Kind: kind, Raw: d.value(d.text)}
	return c, nil
}

// unquoted gives the string that the content of a valid JSON string means.
func unquoted(content []byte) string {
	if bytes.IndexByte(content, '\\') < 0 {
		return string(content)
	}
	return string(unescape(content))
}

// integer reads a plain JSON integer: no fraction, no exponent, no -0, within
// MaxInteger.
func integer(text []byte) (int64, bool) {
	digits := bytes.TrimPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > 16 || len(digits) < len(text) && digits[0] == '0' {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, n >= -MaxInteger && n <= MaxInteger
}

// wordFor names the JSON type of a value, "" when there is none.
func wordFor(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	if len(text) > 20 {
		return fmt.Sprintf("a number of %d characters", len(text))
	}
	return "the number " + string(text)
}
