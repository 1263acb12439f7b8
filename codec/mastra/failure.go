package mastra

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// readFailure reads an error value. Agents use any value: a string, an Error with or without a message, the classified errors of the product.
func readFailure(v chunk.Value) chunk.ErrorDetail {
	f := chunk.ErrorDetail{Message: failureText(v)}
	o := dialect.Read(v)
	for _, name := range []string{"code", "id", "name"} {
		if s := o.Or(name, ""); s != "" {
			f.Code = &s
			break
		}
	}
	f.Category = o.Maybe("category")
	if v := o.Value("cause"); v != nil {
		f.Cause = new(failureText(v))
	}
	return f
}

// failureText returns the best human-readable text in an error value.
func failureText(v chunk.Value) string {
	if s, ok := dialect.Text(v); ok {
		return s
	}
	o := dialect.Read(v)
	for _, place := range []chunk.Value{o.Peek("message"), o.Object("cause").Peek("message"), o.Object("details").Peek("errorMessage"), o.Peek("name")} {
		if s, ok := dialect.Text(place); ok && s != "" {
			return s
		}
	}
	return string(dialect.OrNull(dialect.Without(v, chunk.MaxDepth, "stack", "requestBodyValues", "responseBody", "responseHeaders", "data", "prompt")))
}
