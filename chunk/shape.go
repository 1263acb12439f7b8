package chunk

import (
	"maps"
	"slices"
)

// MemberSchema describes one member of a type, for code that rewrites JSON which Decode must accept.
type MemberSchema struct {
	Name     string
	Required bool // a chunk without it is refused; of type "any", it is read as null

	// Empty is the value that the member may have when it says nothing: "", {}, [] or null. It is nil when there is no such
	// thing: for an identifier, a number, a boolean, and a word out of a list.
	Empty Value

	Any     bool           // whatever is in it is not the catalogue's
	Members []MemberSchema // of the object that it is, or of each object in the array that it is
}

// Types has every type of the catalogue and the control records, sorted, but those of forks: no client sends them, and none is shown them under a view.
func Types() []Type { return slices.DeleteFunc(slices.Sorted(maps.Keys(plans)), Type.OfFork) }

// Schema describes the members of a type, without the base members that every chunk has; nil for a type that this build does
// not know.
func Schema(t Type) []MemberSchema {
	p := plans[t]
	if p == nil {
		return nil
	}
	return p.shapes()
}

func (p *plan) shapes() []MemberSchema {
	all := make([]MemberSchema, 0, len(p.fields))
	for i := range p.fields {
		f := &p.fields[i]
		s := MemberSchema{Name: f.name, Required: !f.optional, Any: f.kind == kindAny || f.kind == kindObject}
		if text := f.blank(); text != "" {
			s.Empty = Value(text)
		}
		if f.of != nil {
			s.Members = f.of.shapes()
		}
		all = append(all, s)
	}
	return all
}

func (f *field) blank() string {
	switch f.kind {
	case kindString:
		if f.nullable {
			return "null"
		}
		if !f.id && f.enum == nil && f.has([]byte(`""`)) {
			return `""`
		}
	case kindAny:
		return "null"
	case kindObject:
		return "{}"
	case kindStructs:
		return "[]"
	default:
	}
	return ""
}
