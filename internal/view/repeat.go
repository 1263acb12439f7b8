package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// repeats has groups of members with the same content.
var repeats = []map[chunk.Type]string{
	{
		chunk.TypeToolStart: "arguments", chunk.TypeToolArgStreamDelta: "delta",
		chunk.TypeToolApprovalRequest: "input", chunk.TypeToolInputError: "partialInput",
	},
	{chunk.TypeToolEnd: "result", chunk.TypeSubagentEnd: "result"},
	{chunk.TypeToolEnd: "error", chunk.TypeToolInputError: "error", chunk.TypeToolOutputError: "error"},
	{chunk.TypeOutput: "output", chunk.TypeStreamEnd: "finalOutput"},
	{chunk.TypeError: "error", chunk.TypeStreamFailed: "error"},
	{chunk.TypeError: "errorDetail", chunk.TypeStreamFailed: "errorDetail"},
}

// checkRepeats rejects a view that hides or masks content in one place and shows it in another: the arguments of a call, but not the pieces in which they stream.
// A type that is not listed is not declared as hidden.
func (in ruleSet) checkRepeats() error {
	for _, places := range repeats {
		types := slices.Sorted(maps.Keys(places))
		for _, t := range types {
			for _, other := range types {
				if in[t] == nil || in[other] == nil {
					continue
				}
				if hides, shows := in[t].members[places[t]], in[other].members[places[other]]; !shows.restrictsLike(hides) {
					op := "hides"
					if hides != nil && hides.masked {
						op = "masks"
					}
					return fmt.Errorf("%s %s.%s and shows the same in %s.%s", op, t, places[t], other, places[other])
				}
			}
		}
	}
	return nil
}

// restrictsLike reports whether r hides or masks all that other hides or masks.
func (r *rule) restrictsLike(other *rule) bool {
	switch {
	case other.showsAll() || r != nil && (r.hidden || r.masked):
		return true
	case r == nil || other.hidden || other.masked:
		return false
	}
	for name, m := range other.members {
		if !r.members[name].restrictsLike(m) {
			return false
		}
	}
	return true
}
