package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// redact returns a chunk that is kept whole, without what must not be stored. Chunks are wrapped in others at several places; every object that looks like a
// chunk is redacted. Otherwise the prompts of a sub-agent would be stored, which the product's own server does not remove either.
//
// Values deeper than depth stay: no chunk may be that deep.
func redact(v chunk.Value, depth int) chunk.Value {
	if depth == 0 {
		return v
	}
	kind := dialect.TextAt(v, "type")
	return dialect.Rewrite(v, func(name string, value chunk.Value) chunk.Value {
		if name == "payload" && kind != "" && rawjson.Kind(value) == '{' {
			value = redactPayload(kind, value)
		}
		return redact(value, depth-1)
	})
}

// kept has the members of step-finish and finish that are stored: the others repeat earlier chunks.
var kept = []string{"type", "id", "messageId", "stepResult", "output", "metadata", "totalUsage", "providerMetadata"}

func redactPayload(kind string, payload chunk.Value) chunk.Value {
	ends := kind == "step-finish" || kind == "finish"
	return dialect.Rewrite(payload, func(name string, value chunk.Value) chunk.Value {
		switch {
		case ends && !slices.Contains(kept, name):
			return nil
		case ends && name == "output":
			return only(value, "usage", "text", "object")
		case kind == "step-start" && (name == "request" || name == "inputMessages"):
			return nil
		case name == "metadata":
			return dialect.Without(value, 1, "request")
		case name == "error":
			return dialect.Without(value, chunk.MaxDepth, "stack", "requestBodyValues", "prompt")
		}
		return value
	})
}

func only(v chunk.Value, names ...string) chunk.Value {
	return dialect.Rewrite(v, func(name string, value chunk.Value) chunk.Value {
		if slices.Contains(names, name) {
			return value
		}
		return nil
	})
}

// maxLevels limits the nesting of a text that may fit into a chunk after it was redacted.
const maxLevels = 10_000

// open parses one JSON value. A chunk that exceeds the limits may fit without the history that it repeats: a long run ends with such a chunk.
func open(raw []byte) (chunk.Value, error) {
	v, err := dialect.CheckValue(raw)
	if err == nil {
		return v, nil
	}
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: maxLevels}); !ok {
		return nil, err
	}
	return dialect.CheckValue(redact(chunk.Value(rawjson.TrimSpace(raw)), chunk.MaxDepth))
}
