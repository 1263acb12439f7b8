package view

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// maskedValue is the JSON of a masked text or number.
const maskedValue = `"•"`

// maskAll masks a value of any form.
var maskAll = &rule{masked: true}

// mask masks a member of the chunk schema that has a value of any form. A client could not read another one: the schema has a number or an id there, or clients
// join its pieces.
func (r *rule) mask(shapes []chunk.MemberSchema, path []string) error {
	shape, known := find(shapes, path[0])
	m := r.members[path[0]]
	switch {
	case !known && r.closed:
		return fmt.Errorf("%q: %w", path[0], errNoMember)
	case !known, shape.Any:
		r.members[path[0]] = m.maskedAt(path[1:])
		return nil
	case len(path) == 1:
		return fmt.Errorf("%q cannot be masked: want a member with a value of any form, such as arguments or result", path[0])
	case shape.Members == nil:
		return fmt.Errorf("%q has no members", path[0])
	}
	return m.mask(shape.Members, path[1:])
}

// maskedAt returns r with a member masked of a value that the chunk schema does not describe.
func (r *rule) maskedAt(path []string) *rule {
	if len(path) == 0 {
		return &rule{masked: true}
	}
	if r == nil {
		r = &rule{members: make(map[string]*rule)}
	}
	if !r.masked {
		r.members[path[0]] = r.members[path[0]].maskedAt(path[1:])
	}
	return r
}

// visibility says how much of a value is shown.
type visibility int

const (
	showNothing visibility = iota
	showMasked             // all of it is masked
	showAll
)

// visibilityOf returns the visibility of a value that is made from sources. One of which a part is hidden or masked is hidden.
func (in ruleSet) visibilityOf(sources ...source) visibility {
	least := showAll
	for _, f := range sources {
		least = min(least, in[f.typ].visibility(f.path...))
	}
	return least
}

func (r *rule) visibility(path ...string) visibility {
	if r == nil {
		return showNothing
	}
	m, visible := r.at(path...)
	switch {
	case !visible:
		return showNothing
	case m.showsAll():
		return showAll
	case m.masked && m.members == nil:
		return showMasked
	}
	return showNothing
}

// toolInput returns the visibility of the inputs of calls. Pieces of an input cannot be masked, so a view that masks inputs does not show them.
func (in ruleSet) toolInput() visibility {
	v := in.visibilityOf(toolInputs...)
	if v == showAll {
		v = in.visibilityOf(toolInputPieces)
	}
	return v
}

// apply replaces a member that is not shown, and masks one that is masked.
func (r *rule) apply(name string, v visibility, instead string) {
	r.blank(name, v != showNothing, instead)
	if v == showMasked {
		r.members[name] = maskAll
	}
}

// of returns what is shown of a valid value, nil of nil.
func (v visibility) of(value chunk.Value, instead string) chunk.Value {
	switch {
	case value == nil || v == showAll:
		return value
	case v == showMasked:
		return maskAll.append(nil, value)
	}
	return chunk.Value(instead)
}
