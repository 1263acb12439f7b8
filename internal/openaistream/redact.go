package openaistream

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// hidden are the members that an event which is kept whole loses, at any depth: the prompt, the definitions of tools, credentials of servers, and padding.
var hidden = []string{
	"instructions", "tools", "prompt", "messages", "metadata", "user", "safety_identifier", "prompt_cache_key", "authorization", "headers", "api_key", "server_url",
	"encrypted_content", "logprobs", "obfuscation", "encryptedContent", "serverUrl",
}

// Redacted returns v without what must not be stored.
func Redacted(v chunk.Value) chunk.Value { return redact(v, chunk.MaxDepth) }

// redact returns v without what must not be stored. Values deeper than depth stay: no chunk may be that deep.
func redact(v chunk.Value, depth int) chunk.Value {
	kind := rawjson.Kind(v)
	if depth == 0 || kind != '{' && kind != '[' {
		return v
	}
	out := chunk.Value{kind}
	add := func(name rawjson.Text, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		if name != nil {
			out = append(append(out, name...), ':')
		}
		out = append(out, redact(value, depth-1)...)
	}
	for name, value := range rawjson.Members(v) {
		if s, err := name.Unquote(); err == nil && !slices.Contains(hidden, s) {
			add(name, value)
		}
	}
	for value := range rawjson.Elements(v) {
		add(nil, value)
	}
	return append(out, kind+2) // the closing bracket or brace
}
