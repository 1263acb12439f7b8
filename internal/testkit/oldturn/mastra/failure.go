package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// without returns v without the members of these names, at any depth.
func without(v chunk.Value, names ...string) chunk.Value {
	if len(v) == 0 {
		return chunk.Value("null")
	}
	return rewrite(v, func(_ object, name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return nil
		}
		return without(value, names...)
	})
}
