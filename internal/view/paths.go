package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// restrict applies v.Mask and v.Hide to the visible types: a member that both have is hidden. A path that selects nothing is an error.
func (v View) restrict(in ruleSet) error {
	if err := v.each(in, "mask", v.Mask, (*rule).mask); err != nil {
		return err
	}
	return v.each(in, "hide", v.Hide, (*rule).hide)
}

// restriction changes the rule of a type for a member of the chunk schema.
type restriction func(r *rule, shapes []chunk.MemberSchema, path []string) error

// each applies a restriction to members by type.
func (v View) each(in ruleSet, op string, members map[chunk.Type][]string, apply restriction) error {
	for t, paths := range members {
		for _, path := range paths {
			names := strings.Split(path, ".")
			if slices.Contains(names, "") {
				return fmt.Errorf("%s %s %q: want the names of members, with dots between", op, t, path)
			}
			if err := v.one(in, t, names, apply); err != nil {
				return fmt.Errorf("%s %s %q: %w", op, t, path, err)
			}
		}
	}
	return nil
}

func (v View) one(in ruleSet, t chunk.Type, path []string, apply restriction) error {
	if t == everyType {
		return everywhere(in, path, apply)
	}
	r := in[t]
	if r == nil {
		if !isKnownType(t) {
			return fmt.Errorf("unknown type %q", t)
		}
		r = ruleOf(shapesOf(t), v.Extra) // checked, also if it has no effect
	}
	return restrictMember(r, t, path, apply)
}

func everywhere(in ruleSet, path []string, apply restriction) error {
	hits := 0
	types := slices.AppendSeq(chunk.Types(), maps.Keys(in))
	slices.Sort(types)
	for _, t := range slices.Compact(types) {
		_, has := find(shapesOf(t), path[0])
		r := in[t]
		if !has && (r == nil || r.closed) {
			continue
		}
		hits++
		if r == nil {
			continue
		}
		if err := restrictMember(r, t, path, apply); err != nil {
			return fmt.Errorf("of %s: %w", t, err)
		}
	}
	if hits == 0 {
		return errNoMember
	}
	return nil
}

func restrictMember(r *rule, t chunk.Type, path []string, apply restriction) error {
	if t == chunk.TypeStatePatch && len(path) > 1 && path[0] == "patches" {
		return fmt.Errorf("cannot hide a part of a patch: hide %q as a whole", path[0])
	}
	if err := apply(r, shapesOf(t), path); err != nil {
		return err
	}
	if m := r.members["error"]; t == chunk.TypeToolEnd && m != nil && m.hidden {
		m.replacement = []byte(`""`) // its presence shows that the tool failed
	}
	return nil
}
