package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// rewrite returns v with each member or element, whose name is "", replaced by the result of change; nil removes it. A value that is not a container is returned
// unchanged.
func rewrite(v chunk.Value, change func(name string, value chunk.Value) chunk.Value) chunk.Value {
	if !isObject(v) && !isArray(v) {
		return v
	}
	out := chunk.Value{v[0]}
	for quoted, value := range elements(v) {
		name, _ := text(quoted)
		value = change(name, value)
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
	kind, _ := text(rawjson.Get(v, "type"))
	return rewrite(v, func(name string, value chunk.Value) chunk.Value {
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
	return rewrite(payload, func(name string, value chunk.Value) chunk.Value {
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
	return rewrite(v, func(name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return value
		}
		return nil
	})
}

func except(v chunk.Value, names ...string) chunk.Value {
	return rewrite(v, func(name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return nil
		}
		return value
	})
}
