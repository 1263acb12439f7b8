package chunk

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// AppendJSON appends the JSON of c, one line without trailing newline: base members, the body's in schema order, then Extra. An Opaque body is appended
// unchanged. The same chunk always gives the same bytes. AppendJSON returns a *FieldError for what Decode would reject, and dst unchanged.
func (c Chunk) AppendJSON(dst []byte) ([]byte, error) {
	out, err := c.appendTo(dst, limits)
	if err != nil {
		err.Type = c.Type()
		return dst, err
	}
	return out, nil
}

// Validate returns the *FieldError with which Decode would reject the JSON of c, nil if it would accept it.
func (c Chunk) Validate() error {
	_, err := c.AppendJSON(nil)
	return err
}

// ValidateUnstored is Validate without MaxValues, see DecodeUnstored.
func (c Chunk) ValidateUnstored() error {
	if _, err := c.appendTo(nil, writerLimits); err != nil {
		err.Type = c.Type()
		return err
	}
	return nil
}

// appendTo checks the number of values of the whole text at its end.
func (c Chunk) appendTo(dst []byte, l rawjson.Limits) ([]byte, *FieldError) {
	if o, ok := c.Body.(Opaque); ok {
		return c.appendOpaque(dst, o)
	}
	p := plans[c.Type()]
	if p == nil || reflect.TypeOf(c.Body) != p.typ {
		return nil, &FieldError{Field: "type", Want: "a body of package chunk, by value", Got: bodyWord(c.Body)}
	}
	if err := c.checkHead(); err != nil {
		return nil, err
	}
	start := len(dst)
	dst, err := c.appendHead(dst)
	if err != nil {
		return nil, err
	}
	v := reflect.ValueOf(c.Body)
	if dst, err = p.appendFields(dst, v); err != nil {
		return nil, err
	}
	if dst, err = p.appendExtra(dst, v, c.Extra, baseNames[:]); err != nil {
		return nil, err
	}
	dst = append(dst, '}')
	if err := checkBody(c.Body); err != nil {
		return nil, err
	}
	if !p.flat || c.Extra != nil {
		if info, ok := rawjson.Scan(dst[start:], l); !ok {
			return nil, explain(dst[start:], info)
		}
	}
	return dst, nil
}

func bodyWord(b Body) string {
	if b == nil {
		return ""
	}
	return reflect.TypeOf(b).String()
}

// appendHead appends the base members.
func (c Chunk) appendHead(dst []byte) ([]byte, *FieldError) {
	var ok bool
	dst = append(dst, `{"type":"`...)
	dst = append(dst, c.Type()...)
	dst = append(dst, `","agentId":`...)
	if dst, ok = rawjson.AppendQuotedChunk(dst, c.AgentID); !ok {
		return nil, notText().under("agentId")
	}
	dst = append(dst, `,"agentType":`...)
	if dst, ok = rawjson.AppendQuotedChunk(dst, c.AgentType); !ok {
		return nil, notText().under("agentType")
	}
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, c.Timestamp, 10)
	dst = append(dst, `,"step":`...)
	return strconv.AppendInt(dst, c.Step, 10), nil
}

func notText() *FieldError { return &FieldError{Want: "text in UTF-8", Got: "bytes that are none"} }

// appendFields appends the members of v, each with a comma before it.
func (p *plan) appendFields(dst []byte, v reflect.Value) ([]byte, *FieldError) {
	for i := range p.fields {
		f := &p.fields[i]
		member := v.Field(f.index)
		if f.optional && member.IsZero() {
			continue
		}
		dst = append(dst, f.lead...)
		if f.pointer && member.IsNil() {
			dst = append(dst, "null"...) // nullable
			continue
		}
		if f.pointer {
			member = member.Elem()
		}
		start := len(dst)
		var err *FieldError
		if dst, err = f.append(dst, member); err == nil && !f.has(dst[start:]) {
			err = &FieldError{Want: f.words, Got: "something else"}
		}
		if err != nil {
			return nil, err.under(f.name)
		}
	}
	return dst, nil
}

func (f *field) append(dst []byte, v reflect.Value) ([]byte, *FieldError) {
	switch f.kind {
	case kindString:
		s := v.String()
		if err := f.checkString(s); err != nil {
			return nil, err
		}
		dst, ok := rawjson.AppendQuotedChunk(dst, s)
		if !ok {
			return nil, notText()
		}
		return dst, nil
	case kindBool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case kindInteger:
		n := v.Int()
		if n < -MaxInteger || n > MaxInteger {
			return nil, &FieldError{Want: f.words, Got: "the number " + strconv.FormatInt(n, 10)}
		}
		return strconv.AppendInt(dst, n, 10), nil
	case kindNumber:
		return appendNumber(dst, v.String())
	case kindAny:
		return appendValue(dst, v.Bytes())
	case kindObject:
		if text := rawjson.TrimSpace(v.Bytes()); len(text) == 0 || text[0] != '{' {
			return nil, &FieldError{Want: f.words, Got: wordFor(text)}
		}
		return appendValue(dst, v.Bytes())
	case kindStruct:
		return f.of.appendObject(dst, v)
	default:
		return f.of.appendArray(dst, v)
	}
}

func (p *plan) appendObject(dst []byte, v reflect.Value) ([]byte, *FieldError) {
	start := len(dst)
	dst, err := p.appendFields(dst, v)
	if err == nil && p.extra >= 0 {
		extra, _ := reflect.TypeAssert[[]Member](v.Field(p.extra))
		dst, err = p.appendExtra(dst, v, extra, nil)
	}
	if err != nil {
		return nil, err
	}
	if len(dst) == start {
		return append(dst, '{', '}'), nil
	}
	dst[start] = '{' // instead of the comma before the first member
	return append(dst, '}'), nil
}

func (p *plan) appendArray(dst []byte, v reflect.Value) ([]byte, *FieldError) {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err *FieldError
		if dst, err = p.appendObject(dst, v.Index(i)); err != nil {
			return nil, err.under(strconv.Itoa(i))
		}
	}
	return append(dst, ']'), nil
}

// appendExtra appends members that the chunk schema does not have to those of v. It rejects the others and duplicates: Decode would read something else.
func (p *plan) appendExtra(dst []byte, v reflect.Value, extra []Member, base []string) ([]byte, *FieldError) {
	if len(extra) == 0 {
		return dst, nil
	}
	seen := make(map[string]bool, len(extra))
	for _, m := range extra {
		i := p.find([]byte(m.Name))
		inSchema := i >= 0 && (p.fields[i].has(m.Value) || !v.Field(p.fields[i].index).IsZero())
		if inSchema || slices.Contains(base, m.Name) || seen[m.Name] {
			return nil, twice(escapePointer(m.Name))
		}
		seen[m.Name] = true
		var ok bool
		if dst, ok = rawjson.AppendQuotedChunk(append(dst, ','), m.Name); !ok {
			return nil, notText().under(escapePointer(m.Name))
		}
		var err *FieldError
		if dst, err = appendValue(append(dst, ':'), m.Value); err != nil {
			return nil, err.under(escapePointer(m.Name))
		}
	}
	return dst, nil
}

// appendValue appends the text of a value, on one line.
func appendValue(dst []byte, v Value) ([]byte, *FieldError) {
	text := rawjson.TrimSpace(v)
	switch {
	case len(v) == 0:
		return append(dst, "null"...), nil
	case len(text) == 0:
		return nil, &FieldError{Want: "a JSON value", Got: "white space"}
	}
	info, err := checkWithin(text, writerLimits)
	if err != nil {
		return nil, err
	}
	if info.HasLineBreaks {
		return rawjson.AppendCompact(dst, text), nil
	}
	return append(dst, text...), nil
}

func appendNumber(dst []byte, s string) ([]byte, *FieldError) {
	if !isNumber(s) {
		return nil, &FieldError{Want: kindWords[kindNumber], Got: excerpt(s)}
	}
	if err := checkNumber(s); err != nil {
		return nil, err
	}
	return append(dst, s...), nil
}

// appendOpaque appends a chunk of an unknown type unchanged. Its base members are part of those bytes: a change to c alone would be lost, so it is an
// error.
func (c Chunk) appendOpaque(dst []byte, o Opaque) ([]byte, *FieldError) {
	text := rawjson.TrimSpace(o.Raw)
	read, err := decode(text)
	if err != nil {
		return nil, err
	}
	again, ok := read.Body.(Opaque)
	switch {
	case !ok:
		return nil, &FieldError{Field: "type", Want: "a type outside the catalogue", Got: excerpt(string(read.Type()))}
	case again.Kind != o.Kind:
		return nil, differs("type", string(again.Kind))
	case read.AgentID != c.AgentID:
		return nil, differs("agentId", read.AgentID)
	case read.AgentType != c.AgentType:
		return nil, differs("agentType", read.AgentType)
	case read.Timestamp != c.Timestamp:
		return nil, differs("timestamp", strconv.FormatInt(read.Timestamp, 10))
	case read.Step != c.Step:
		return nil, differs("step", strconv.FormatInt(read.Step, 10))
	case len(c.Extra) > 0:
		return nil, &FieldError{Want: "no Extra beside an Opaque body", Got: strconv.Itoa(len(c.Extra))}
	}
	return append(dst, again.Raw...), nil
}

func differs(name, raw string) *FieldError {
	return &FieldError{Field: name, Want: "what the raw JSON says: " + excerpt(raw), Got: "something else"}
}
