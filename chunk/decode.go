package chunk

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// Decode reads the JSON of one chunk or control record and validates it. An unknown type becomes an Opaque body. Errors are *FieldError (ErrInvalid). The
// result does not share memory with data.
//
// The JSON must be one object in UTF-8 within the limits of this package, without duplicate names, with nothing but white space around it. Member names
// are case-sensitive. A missing member of type "any" is read as null, a missing step as 0; members that the chunk schema does not have are kept in Extra.
func Decode(data []byte) (Chunk, error) {
	c, err := decode(data)
	if err != nil { // a nil *FieldError must not become an error
		return Chunk{}, err
	}
	return c, nil
}

// DecodeUnstored is Decode without MaxValues, for a chunk that a writer has not stored yet: it stores a value that is too large for a record elsewhere.
func DecodeUnstored(data []byte) (Chunk, error) {
	c, err := decodeWithin(data, &plainWriterLimits, &writerLimits)
	if err != nil { // a nil *FieldError must not become an error
		return Chunk{}, err
	}
	return c, nil
}

func decode(data []byte) (Chunk, *FieldError) { return decodeWithin(data, &plainLimits, &limits) }

func decodeWithin(data []byte, plain, all *rawjson.Limits) (Chunk, *FieldError) {
	data = rawjson.TrimSpace(data)
	var buf [12]member // most chunks have fewer: no allocation
	out, err := outlineWithin(data, buf[:], plain, all)
	if err != nil {
		return Chunk{}, err
	}
	d := decoder{text: data, newline: out.newline, plain: out.unescaped}
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
	plain   bool                   // no name has an escape
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

// baseMember returns the index of a name in baseNames, -1 if it is not there.
func baseMember(name string) int {
	switch name {
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

// takeBase stores the base members and returns the others, in place.
func (d *decoder) takeBase(members []member) []member {
	rest := members[:0]
	for _, m := range members {
		if b := baseMember(string(d.name(m))); b >= 0 {
			d.base[b] = m.value
		} else {
			rest = append(rest, m)
		}
	}
	return rest
}

// name returns the unescaped name of a member.
func (d *decoder) name(m member) []byte {
	if d.plain {
		return m.name.Content()
	}
	return m.name.Bytes()
}

// chunk builds the chunk. It also returns the type, once it is known, for the error.
func (d *decoder) chunk(rest []member) (Chunk, Type, *FieldError) {
	name, err := d.baseText(baseType)
	if err != nil {
		return Chunk{}, "", err
	}
	p, known := plans[Type(name)]
	if !known {
		return d.opaque(Type(name))
	}
	h, err := d.head()
	if err != nil {
		return Chunk{}, p.kind, err
	}
	c := Chunk{AgentID: string(h.agentID), AgentType: string(h.agentType), Timestamp: h.timestamp, Step: h.step}
	v := reflect.New(p.typ).Elem()
	if c.Extra, err = d.fill(p, v, rest); err != nil {
		return Chunk{}, p.kind, err
	}
	c.Body, _ = reflect.TypeAssert[Body](v) // plans are of Bodies only
	if err := checkBody(c.Body); err != nil {
		return Chunk{}, p.kind, err
	}
	return c, p.kind, nil
}

// check returns the error that chunk would return. It builds a body only if a rule applies to the whole of it.
func (d *decoder) check(rest []member) (kind Type, known bool, err *FieldError) {
	name, err := d.baseText(baseType)
	if err != nil {
		return "", false, err
	}
	p, known := plans[Type(name)]
	if !known || p.ruled {
		_, kind, err = d.chunk(rest)
		return kind, known, err
	}
	if _, err = d.head(); err == nil {
		_, err = d.fill(p, reflect.Value{}, rest)
	}
	return p.kind, true, err
}

// head are the base members but for the type.
type head struct {
	agentID, agentType []byte
	timestamp, step    int64
}

func (d *decoder) head() (h head, err *FieldError) {
	if h.agentID, err = d.baseText(baseAgentID); err != nil {
		return h, err
	}
	if h.agentType, err = d.baseText(baseAgentType); err != nil {
		return h, err
	}
	if h.timestamp, err = d.baseInteger(baseTimestamp); err != nil {
		return h, err
	}
	if d.base[baseStep] != nil {
		if h.step, err = d.baseInteger(baseStep); err != nil {
			return h, err
		}
	}
	return h, Chunk{AgentID: string(h.agentID), Timestamp: h.timestamp, Step: h.step}.checkHead()
}

// baseText returns the text of a base member, which must be a string.
func (d *decoder) baseText(b int) ([]byte, *FieldError) {
	text := d.base[b]
	if len(text) == 0 || text[0] != '"' {
		return nil, &FieldError{Field: baseNames[b], Want: "a string", Got: wordFor(text)}
	}
	return rawjson.Text(text).Bytes(), nil
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

// fill reads members into v, a struct of plan p, and returns those that p does not have. Without a v it only checks that they can be read.
func (d *decoder) fill(p *plan, v reflect.Value, members []member) (extra []Member, err *FieldError) {
	var values [maxFields][]byte
	for _, m := range members {
		name := d.name(m)
		if i := p.find(name); i >= 0 && p.fields[i].has(m.value) {
			values[i] = m.value
		} else if v.IsValid() {
			extra = append(extra, Member{Name: string(name), Value: d.value(m.value)})
		}
	}
	var into reflect.Value
	for i := range p.fields {
		f := &p.fields[i]
		if v.IsValid() {
			into = v.Field(f.index)
		}
		if err := d.field(f, into, values[i]); err != nil {
			return nil, err.under(f.name)
		}
	}
	return extra, nil
}

// field reads one member; text is nil if it is missing.
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
	if !f.fits(text) {
		return &FieldError{Want: f.words, Got: wordFor(text)}
	}
	if v.IsValid() {
		if f.pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		d.set(f, v, text)
	}
	switch f.kind {
	case kindString:
		if f.id || f.enum != nil {
			return f.checkString(string(rawjson.Text(text).Bytes()))
		}
		return nil
	case kindNumber:
		return checkNumber(string(text))
	case kindStruct:
		return d.object(f.of, v, text)
	case kindStructs:
		return d.array(f.of, v, text)
	default:
		return nil
	}
}

// fits reports whether text has the type of f.
func (f *field) fits(text []byte) bool {
	first := text[0]
	switch f.kind {
	case kindString:
		return first == '"'
	case kindBool:
		return first == 't' || first == 'f'
	case kindInteger:
		_, ok := integer(text)
		return ok
	case kindNumber:
		return first == '-' || first >= '0' && first <= '9'
	case kindObject, kindStruct:
		return first == '{'
	case kindStructs:
		return first == '['
	default:
		return true
	}
}

// set stores a simple value that fits.
func (d *decoder) set(f *field, v reflect.Value, text []byte) {
	switch f.kind {
	case kindString:
		v.SetString(string(rawjson.Text(text).Bytes()))
	case kindBool:
		v.SetBool(text[0] == 't')
	case kindInteger:
		n, _ := integer(text)
		v.SetInt(n)
	case kindNumber:
		v.SetString(string(text))
	case kindAny, kindObject:
		v.SetBytes(d.value(text))
	case kindStructs:
		if f.optional { // present, even when it is empty
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
	default: // its members are read one by one
	}
}

func (d *decoder) object(p *plan, v reflect.Value, text []byte) *FieldError {
	var buf [8]member
	members := buf[:0]
	for name, value := range rawjson.Members(text) {
		members = append(members, member{name, value})
	}
	extra, err := d.fill(p, v, members)
	if extra != nil {
		v.Field(p.extra).Set(reflect.ValueOf(extra))
	}
	return err
}

func (d *decoder) array(p *plan, v reflect.Value, text []byte) *FieldError {
	i := 0
	for elem := range rawjson.Elements(text) {
		if elem[0] != '{' {
			return (&FieldError{Want: "an object", Got: wordFor(elem)}).under(strconv.Itoa(i))
		}
		var into reflect.Value
		if v.IsValid() {
			v.Grow(1)
			v.SetLen(i + 1)
			into = v.Index(i)
		}
		if err := d.object(p, into, elem); err != nil {
			return err.under(strconv.Itoa(i))
		}
		i++
	}
	return nil
}

// value returns a copy of the text of a value, on one line.
func (d *decoder) value(text []byte) Value {
	if d.newline && bytes.ContainsAny(text, "\n\r") {
		return rawjson.AppendCompact(make([]byte, 0, len(text)), text)
	}
	return bytes.Clone(text)
}

// opaque keeps a chunk of a type that the chunk schema does not have. It reads base members that have the right type; only the agentId is required.
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

// integer reads a JSON integer without fraction or exponent, within MaxInteger, except -0.
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

// wordFor returns the name of the JSON type of a value, "" if there is no value.
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
