package openai

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Endpoints send signatures and encrypted reasoning with an answer, and want them back in the next request: without them some of them reject the request, others think
// again. They are in the providerMetadata of the parts of the answer, so that the log keeps them, and a view that hides reasoning hides them too. Another endpoint or model
// cannot read them, and may reject a request that has them, so they name the one that they are of. Those of a program that has sent a response itself name none.

const endpointMember = "endpoint"

// endpointOf returns the name of the endpoint and the model in states. It is not their text, which is not for users.
func endpointOf(c Config) string {
	sum := sha256.Sum256([]byte(c.BaseURL + "\n" + c.Model))
	return hex.EncodeToString(sum[:8])
}

// extra returns the additional members of a chunk with a state.
func (p *stepWriter) extra(state chunk.Value) []chunk.Member {
	if state == nil {
		return nil
	}
	o := rawjson.Begin(nil)
	o.String(endpointMember, p.endpoint)
	return openaistream.Extra(append(append(o.Dst, ','), state[1:]...))
}

// stateOf returns the state in the providerMetadata of a part, nil if it has none for an endpoint.
func stateOf(metadata chunk.Value, endpoint string) chunk.Value {
	state := rawjson.Get(metadata, "openai")
	if of := rawjson.Get(state, endpointMember); of != nil && !rawjson.Text(of).Is(endpoint) {
		return nil
	}
	return state
}

// addState adds what a message of chat completions has of a state.
func (m *chatMessage) addState(state chunk.Value) {
	if v := rawjson.Get(state, "extra_content"); v != nil {
		m.ExtraContent = v
	}
	m.ReasoningDetails = joined(m.ReasoningDetails, rawjson.Get(state, "reasoning_details"))
	m.ThinkingBlocks = joined(m.ThinkingBlocks, rawjson.Get(state, "thinking_blocks"))
}

// joined returns an array with the elements of two, nil for none.
func joined(a, b []byte) []byte {
	if len(a) == 0 || len(b) == 0 {
		return append(a, b...)
	}
	return append(append(bytes.TrimSuffix(bytes.Clone(a), []byte("]")), ','), b[1:]...)
}
