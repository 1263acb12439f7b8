package mastra

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// failure is the content of an error value. Agents use any value: a string, an Error with or without a message, the classified errors of the product.
type failure struct {
	text     string
	code     *string
	category *string
	cause    *string
}

func readFailure(v chunk.Value) failure {
	f := failure{text: failureText(v)}
	o := read(v)
	for _, name := range []string{"code", "id", "name"} {
		if s, ok := o.text(name); ok && s != "" {
			f.code = &s
			break
		}
	}
	f.category = o.maybe("category")
	if v, ok := o["cause"]; ok && string(v) != "null" {
		cause := failureText(v)
		f.cause = &cause
	}
	return f
}

// failureText returns the best human-readable text in an error value.
func failureText(v chunk.Value) string {
	if s, ok := text(v); ok {
		return s
	}
	o := read(v)
	for _, place := range []chunk.Value{o["message"], o.object("cause")["message"], o.object("details")["errorMessage"], o["name"]} {
		if s, ok := text(place); ok && s != "" {
			return s
		}
	}
	return string(without(v, "stack", "requestBodyValues", "responseBody", "responseHeaders", "data", "prompt"))
}

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

func (f failure) detail() *chunk.ErrorDetail {
	return &chunk.ErrorDetail{Message: f.text, Code: f.code, Category: f.category, Cause: f.cause}
}

// result returns the result of a failed sub-agent for its parent.
func (f failure) result() chunk.Value {
	return append(append(chunk.Value(`{"error":`), quote(f.text)...), '}')
}
