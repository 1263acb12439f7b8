package openaistream

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// hidden are the members that an event which is kept whole loses, at any depth: the prompt, the definitions of tools, credentials of servers, and padding.
var hidden = []string{
	"instructions", "tools", "prompt", "messages", "metadata", "user", "safety_identifier", "prompt_cache_key", "authorization", "headers", "api_key", "server_url",
	"encrypted_content", "logprobs", "obfuscation", "encryptedContent", "serverUrl",
}

// Redacted returns v without what must not be stored.
func Redacted(v chunk.Value) chunk.Value { return dialect.Without(v, chunk.MaxDepth, hidden...) }
