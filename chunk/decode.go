package chunk

import (
	"bytes"
	"fmt"
	"reflect"
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
	c, err := decode(data)
	if err != nil { // a nil *FieldError must not become an error
		return Chunk{}, err
	}
	return c, nil
}

func decode(data []byte) (Chunk, *FieldError) {
	data = trimSpace(data)
	var room [16]member // most chunks have fewer: no allocation
	out, ok := plainOutline(data, room[:])
	if !ok {
		var err *FieldError
		if out, err = trace(data, room[:]); err == nil {
			err = checkGrammar(data, out.loneEscape)
		}
		if err == nil && data[0] != '{' {
			err = &FieldError{Want: "an object", Got: wordFor(data)}
		}
		if err != nil {
			return Chunk{}, err
		}
	}
	d := decoder{text: data, newline: out.newline}
	rest := d.takeBase(out.members)
	c, kind, err := d.chunk(rest)
	if err != nil {
		err.Type = kind
	}
	return c, err
}

// decoder reads one chunk from text that is valid JSON and within the limits.
type decoder struct {
	text    []byte
	newline bool                   // the text has line breaks outside strings
	base    [len(baseNames)][]byte // the base members, nil when absent
}

var baseNames = [...]string{"type", "agentId", "agentType", "timestamp", "step"}

const (
	baseType = iota
	baseAgentID
	baseAgentType
	baseTimestamp
	baseStep
)

// baseMember is the place of a name in baseNames, -1 when it is none of them.
func baseMember(name []byte) int {
	switch string(name) {
	case "type":
		return baseType
	case "agentId":
		return baseAgentID
	case "agentType":
		return baseAgentType
	case "timestamp":
		return baseTimestamp
	case "step":
		return baseStep
	}
	return -1
}

// takeBase takes the base members and returns the others, in place.
func (d *decoder) takeBase(members []member) []member {
	rest := members[:0]
	for _, m := range members {
		if b := baseMember(plain(m.name.of(d.text))); b >= 0 {
			d.base[b] = m.value.of(d.text)
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

// chunk also returns the type, once it is known, for the error.
func (d *decoder) chunk(rest []member) (Chunk, Type, *FieldError) {
	name, err := d.baseText(baseType)
	if err != nil {
		return Chunk{}, "", err
	}
	p, known := plans[Type(name)]
	if !known {
		return d.opaque(Type(name))
	}
	c, err := d.head()
	if err != nil {
		return Chunk{}, p.kind, err
	}
	v := reflect.New(p.typ).Elem()
	if c.Extra, err = d.fill(p, v, d.text, rest); err != nil {
		return Chunk{}, p.kind, err
	}
	c.Body, _ = reflect.TypeAssert[Body](v) // plans are of Bodies only
	if err := checkBody(c.Body); err != nil {
		return Chunk{}, p.kind, err
	}
	return c, p.kind, nil
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
	if d.base[baseStep] != nil {
		if c.Step, err = d.baseInteger(baseStep); err != nil {
			return c, err
		}
	}
	return c, c.checkHead()
}

// baseText is the unescaped content of a base member that must be a string.
func (d *decoder) baseText(b int) ([]byte, *FieldError) {
	text := d.base[b]
	if len(text) == 0 || text[0] != '"' {
		return nil, &FieldError{Field: baseNames[b], Want: "a string", Got: wordFor(text)}
	}
	return plain(text[1 : len(text)-1]), nil
}

func (d *decoder) baseString(b int) (string, *FieldError) {
	text, err := d.baseText(b)
	return string(text), err
}

func (d *decoder) baseInteger(b int) (int64, *FieldError) {
	text := d.base[b]
	n, ok := integer(text)
	if !ok {
		return 0, &FieldError{Field: baseNames[b], Want: kindWords[kindInteger], Got: wordFor(text)}
	}
	return n, nil
}

// fill reads members of text into v, a struct of plan p, and returns those that
// p does not know.
func (d *decoder) fill(p *plan, v reflect.Value, text []byte, members []member) (extra []Member, err *FieldError) {
	var values [maxFields][]byte
	for _, m := range members {
		name := plain(m.name.of(text))
		if i := p.find(name); i >= 0 {
			values[i] = m.value.of(text)
		} else {
			extra = append(extra, Member{Name: string(name), Value: d.value(m.value.of(text))})
		}
	}
	for i := range p.fields {
		f := &p.fields[i]
		if err := d.field(f, v.Field(f.index), values[i]); err != nil {
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
		v.SetString(string(plain(text[1 : len(text)-1])))
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
		if f.optional { // present, even when it is empty
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		return first == '['
	}
	return true
}

func (d *decoder) object(p *plan, v reflect.Value, text []byte) *FieldError {
	var room [8]member
	members := room[:0]
	for m := range membersOf(text) {
		members = append(members, m)
	}
	extra, err := d.fill(p, v, text, members)
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
func (d *decoder) opaque(kind Type) (c Chunk, _ Type, err *FieldError) {
	if err := checkOpaqueType(kind); err != nil {
		return Chunk{}, "", err
	}
	if c.AgentID, err = d.baseString(baseAgentID); err != nil {
		return Chunk{}, kind, err
	}
	if err := checkAgentID(c.AgentID); err != nil {
		return Chunk{}, kind, err
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
	return c, kind, nil
}

// plain gives the text that the content of a valid JSON string means. It may be
// part of content.
func plain(content []byte) []byte {
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	return unescape(content)
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
