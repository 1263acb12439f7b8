package openaistream

import (
	"encoding/json"
	"strings"
	"testing"
)

// The usage and the model of the last chunk of servers. That of OpenRouter is from its documentation, that of xAI too.
func TestUsage(t *testing.T) {
	for name, tt := range map[string]struct{ event, usage, model string }{
		"OpenAI": {
			`{"id":"1","object":"chat.completion.chunk","model":"gpt-5-2025-08-07","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":7}}}`,
			`{"inputTokens":9,"outputTokens":12,"cachedTokens":4,"reasoningTokens":7}`, "gpt-5-2025-08-07",
		},
		"OpenRouter": {
			`{"id":"1","object":"chat.completion.chunk","model":"openai/gpt-5","choices":[],"usage":{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":0},"cost":0.95,"cost_details":{"upstream_inference_cost":19},"prompt_tokens":194,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":100,"audio_tokens":0},"total_tokens":196}}`,
			`{"inputTokens":194,"outputTokens":2,"cacheWriteTokens":100,"cost":"0.95"}`, "openai/gpt-5",
		},
		"a small cost": {`{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":1.425e-05}}`, `{"inputTokens":1,"outputTokens":1,"cost":"0.00001425"}`, "m"},
		"xAI": {
			`{"model":"grok-3-mini","choices":[],"usage":{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}}`,
			`{"inputTokens":32,"outputTokens":103,"reasoningTokens":94}`, "grok-3-mini",
		},
		"Responses": {
			`{"type":"response.completed","response":{"model":"gpt-5-2025-08-07","output":[],"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":9,"cost":0.5}}}`,
			`{"inputTokens":5,"outputTokens":4,"cachedTokens":2,"reasoningTokens":1,"cost":"0.5"}`, "gpt-5-2025-08-07",
		},
		"hostile": {
			`{"model":["m"],"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":"many","completion_tokens_details":{"reasoning_tokens":1e999},"cost":1e999}}`,
			`{"inputTokens":0,"outputTokens":0}`, "earlier",
		},
		"a large hostile one": {
			`{"model":"` + strings.Repeat("m", 1<<20) + `","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"completion_tokens_details":7,"cost":{"total_cost":1}}}`,
			`{"inputTokens":1,"outputTokens":1}`, "earlier",
		},
	} {
		r := Reader{Model: "earlier"}
		if _, err := r.Read([]byte(tt.event)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.Marshal(map[string]any{"usage": usageText(t, r.Usage)})
		if want := `{"usage":` + tt.usage + `}`; err != nil || string(got) != want || r.Model != tt.model {
			t.Errorf("%s: %s %s, want %s %s", name, got, r.Model, want, tt.model)
		}
	}
}

// usageText returns the members of a usage that it has, in the order of the schema.
func usageText(t *testing.T, u *Usage) json.RawMessage {
	t.Helper()
	c := u.Chunk()
	text := `{"inputTokens":` + string(c.InputTokens) + `,"outputTokens":` + string(c.OutputTokens)
	for _, m := range []struct {
		name  string
		value any
		set   bool
	}{
		{"cachedTokens", c.CachedTokens, c.CachedTokens != nil},
		{"cacheWriteTokens", c.CacheWriteTokens, c.CacheWriteTokens != nil},
		{"reasoningTokens", c.ReasoningTokens, c.ReasoningTokens != nil},
		{"cost", c.Cost, c.Cost != nil},
	} {
		if m.set {
			v, err := json.Marshal(m.value)
			if err != nil {
				t.Fatal(err)
			}
			text += `,"` + m.name + `":` + string(v)
		}
	}
	return json.RawMessage(text + "}")
}

func TestSum(t *testing.T) {
	for _, tt := range []struct{ a, b, want *string }{
		{nil, nil, nil},
		{new("0.1"), nil, new("0.1")},
		{nil, new("0.2"), new("0.2")},
		{new("0.1"), new("0.2"), new("0.3")},
		{new("0.000000000000000001"), new("999999998"), new("999999998.000000000000000001")},
		{new("5"), new("5"), new("10")},
		{new("0"), new("0"), new("0")},
		{new("999999999"), new("1"), nil},
	} {
		if got := sum(tt.a, tt.b); (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%v + %v is %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
