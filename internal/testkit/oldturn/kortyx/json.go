package kortyx

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The events with chunks of Kortyx that have no counterpart are named after their types, those of structured data without the prefix: readers of all dialects
// assemble them, see projector/fold.
const (
	prefix         = "kortyx."
	structuredData = "structured-data"
	invalidated    = "structured-data-invalidated"
	approvalPrefix = "tool:" // of the id of an interrupt that asks for the approval of a call
)

// text returns the string in v.
func text(v chunk.Value) (string, bool) {
	s, err := rawjson.Text(v).Unquote()
	return s, err == nil
}
