package mastra

import "github.com/tailrace/tailrace/chunk"

// arguments returns the input of a call as an object. It is missing if it could not be parsed.
func arguments(args chunk.Value) chunk.Value {
	switch {
	case isObject(args):
		return args
	case args.IsNull():
		return chunk.Value(`{}`)
	}
	return append(append(chunk.Value(`{"value":`), args...), '}')
}
