package chunk

import (
	"reflect"
	"slices"
	"strings"
)

// kind is how a member looks in JSON and in Go.
type kind int

const (
	kindString  kind = iota // string
	kindBool                // bool
	kindInteger             // int64
	kindNumber              // Number
	kindAny                 // Value
	kindObject              // Value that must be an object
	kindStruct              // a struct of body.go
	kindStructs             // a slice of them
)

var kindWords = [...]string{
	"a string", "a boolean", "an integer within 53 bits", "a number",
	"any JSON value", "an object", "an object", "an array",
}

// field is one member of a catalogue struct.
type field struct {
	name     string
	lead     string // `,"name":`
	kind     kind
	index    int
	pointer  bool                   // the Go field is a pointer
	optional bool                   // may be absent; nil then
	nullable bool                   // nil is written as null
	words    string                 // what the member must be, for errors
	enum     []string               // the strings allowed, nil for all
	id       bool                   // an identifier: no control characters
	of       *plan                  // kindStruct, kindStructs
	form     func(text []byte) bool // not nil: a value of another form is an extra member
}

// plan is what is to be known about a struct of body.go, read off its type
// once: names and order from the json tags, the rest from the Go types and the
// want tags.
type plan struct {
	kind   Type // "" for parts of bodies
	typ    reflect.Type
	fields []field
	extra  int  // index of the Extra field of a part, -1 in a body
	ruled  bool // checkBody has something to say about it
	flat   bool // strings, booleans and integers only: cannot exceed depth or values
}

// maxFields is the most members that one struct of body.go has.
const maxFields = 9

// plans has every type of the catalogue and the control records.
var plans = plansOf(
	TextDelta{}, Thinking{}, ToolArgStreamStart{}, ToolArgStreamDelta{}, ToolArgStreamEnd{},
	ToolStart{}, ToolEnd{}, ToolApprovalRequest{}, ToolApprovalResponse{}, ToolInputError{}, ToolOutputError{},
	SubagentStart{}, SubagentEnd{}, Custom{}, StatePatch{}, Error{}, Output{}, SourceURL{}, SourceDocument{},
	StepStart{}, StepEnd{}, File{}, RunInterrupted{}, RunResumed{}, RunPaused{}, ExecutorSuperseded{},
	CheckpointCreated{}, StepCommitted{}, StepDiscarded{}, StreamResync{}, SuspensionMarker{},
	RunStarted{}, StreamPaused{}, StreamActive{}, StreamEnd{}, StreamFailed{}, Truncated{}, SessionSeed{}, SessionForked{},
)

func plansOf(bodies ...Body) map[Type]*plan {
	all := make(map[Type]*plan, len(bodies))
	for _, b := range bodies {
		p := planOf(reflect.TypeOf(b))
		p.kind = b.kind()
		p.ruled = slices.Contains(checks, p.kind)
		all[p.kind] = p
	}
	return all
}

func planOf(typ reflect.Type) *plan {
	p := &plan{typ: typ, extra: -1, flat: true}
	for i := range typ.NumField() {
		sf := typ.Field(i)
		name, tagged := sf.Tag.Lookup("json")
		if !tagged {
			continue
		}
		if name == "-" {
			p.extra = i
			continue
		}
		f := fieldOf(sf, name, i)
		p.flat = p.flat && f.kind <= kindInteger
		p.fields = append(p.fields, f)
	}
	if len(p.fields) > maxFields {
		panic("chunk: raise maxFields for " + typ.String())
	}
	return p
}

func fieldOf(sf reflect.StructField, name string, index int) field {
	f := field{name: name, lead: `,"` + name + `":`, index: index}
	typ := sf.Type
	if typ.Kind() == reflect.Pointer {
		f.pointer, typ = true, typ.Elem()
	}
	f.kind = kindOf(typ)
	f.optional = f.pointer
	f.id = f.kind == kindString && strings.HasSuffix(name, "Id")
	f.words = kindWords[f.kind]
	switch want := sf.Tag.Get("want"); want {
	case "":
	case "object":
		f.kind, f.words = kindObject, kindWords[kindObject]
	case "nullable":
		f.nullable, f.optional = true, false
		f.words += " or null"
	case "optional":
		f.optional = true
	case "label", "decimal", "number", "time":
		f.form, f.words = forms[want], formWords[want]
	default:
		f.enum = strings.Split(want, "|")
		f.words = "one of " + strings.Join(f.enum, ", ")
	}
	switch f.kind {
	case kindStruct:
		f.of = planOf(typ)
	case kindStructs:
		f.of = planOf(typ.Elem())
	}
	return f
}

func kindOf(typ reflect.Type) kind {
	switch typ {
	case reflect.TypeFor[Value]():
		return kindAny
	case reflect.TypeFor[Number]():
		return kindNumber
	}
	switch typ.Kind() {
	case reflect.String:
		return kindString
	case reflect.Bool:
		return kindBool
	case reflect.Int64:
		return kindInteger
	case reflect.Struct:
		return kindStruct
	case reflect.Slice:
		return kindStructs
	default:
		panic("chunk: no plan for " + typ.String())
	}
}

// find returns the place of a member in p.fields, -1 when the catalogue does
// not know it. Names are case-sensitive.
func (p *plan) find(name []byte) int {
	for i := range p.fields {
		if string(name) == p.fields[i].name {
			return i
		}
	}
	return -1
}
