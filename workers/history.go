package workers

import (
	"slices"

	"github.com/tailrace/tailrace/projector/fold"
)

// withoutBoundaries removes the step boundaries, which are nothing to a model: each step is a message.
func withoutBoundaries(list []fold.Message) []fold.Message {
	for i := range list {
		list[i].Parts = slices.DeleteFunc(list[i].Parts, func(p fold.Part) bool { return p.Kind == fold.PartStepStart })
	}
	return list
}
