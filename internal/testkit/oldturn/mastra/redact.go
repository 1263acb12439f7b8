package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// rewrite returns v with each member or element replaced by the result of change; nil removes it. in is the object that is rewritten, nil for an array,
// where name is "". A value that is not a container is returned unchanged.
func rewrite(v chunk.Value, change func(in object, name string, value chunk.Value) chunk.Value) chunk.Value {
	if !isObject(v) && !isArray(v) {
		return v
	}
	in := read(v)
	out := chunk.Value{v[0]}
	for quoted, value := range elements(v) {
		name, _ := text(quoted)
		value = change(in, name, value)
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if quoted != nil {
			out = append(append(out, quoted...), ':')
		}
		out = append(out, value...)
	}
	return append(out, v[len(v)-1])
}

// redact returns a chunk that is kept whole, without what must not be stored. Chunks are wrapped in others at several places; every object that looks like a
// chunk is redacted. Otherwise the prompts of a sub-agent would be stored, which the product's own server does not remove either.
//
// Values deeper than depth stay: no chunk may be that deep.
func redact(v chunk.Value, depth int) chunk.Value {
	if depth == 0 {
		return v
	}
	return rewrite(v, func(in object, name string, value chunk.Value) chunk.Value {
		kind, _ := in.text("type")
		if name == "payload" && kind != "" && isObject(value) {
			value = redactPayload(kind, value)
		}
		return redact(value, depth-1)
	})
}

// kept has the members of step-finish and finish that are stored: the others repeat earlier chunks.
var kept = []string{"type", "id", "messageId", "stepResult", "output", "metadata", "totalUsage", "providerMetadata"}

func redactPayload(kind string, payload chunk.Value) chunk.Value {
	ends := kind == "step-finish" || kind == "finish"
	return rewrite(payload, func(_ object, name string, value chunk.Value) chunk.Value {
		switch {
		case ends && !slices.Contains(kept, name):
			return nil
		case ends && name == "output":
			return only(value, "usage", "text", "object")
		case kind == "step-start" && (name == "request" || name == "inputMessages"):
			return nil
		case name == "metadata":
			return except(value, "request")
		case name == "error":
			return without(value, "stack", "requestBodyValues", "prompt")
		}
		return value
	})
}

func only(v chunk.Value, names ...string) chunk.Value {
	return rewrite(v, func(_ object, name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return value
		}
		return nil
	})
}

func except(v chunk.Value, names ...string) chunk.Value {
	return rewrite(v, func(_ object, name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return nil
		}
		return value
	})
}
