package aisdk

import (
	"strings"
	"testing"
)

// The metadata of a message, as the documentation of the AI SDK and its applications write them, name the model and the tokens of steps. They stay metadata.
func TestModelInMetadata(t *testing.T) {
	long := strings.Repeat("m", 1<<20)
	for name, c := range map[string]struct{ parts, want string }{
		"of the whole message, version 5": {`{"type":"start","messageMetadata":{"createdAt":1,"model":"gpt-5.1"}}
{"type":"start-step"}
{"type":"finish-step"}
{"type":"finish","finishReason":"stop","messageMetadata":{"provider":"openai","totalUsage":{"inputTokens":100,"outputTokens":50,"totalTokens":150,"reasoningTokens":20,"cachedInputTokens":10}}}`,
			`"usage":{"inputTokens":100,"outputTokens":50,"cachedTokens":10,"reasoningTokens":20},"finishReason":"stop","model":"gpt-5.1","provider":"openai"`},
		"of each step, version 6": {`{"type":"start"}
{"type":"start-step"}
{"type":"finish-step"}
{"type":"message-metadata","messageMetadata":{"modelId":"claude-sonnet-4-5","usage":{"inputTokens":100,"inputTokenDetails":{"noCacheTokens":60,"cacheReadTokens":30,"cacheWriteTokens":10},"outputTokens":50,"outputTokenDetails":{"textTokens":30,"reasoningTokens":20},"totalTokens":150,"cost":1.5e-3}}}
{"type":"start-step"}
{"type":"finish-step"}
{"type":"message-metadata","messageMetadata":{"modelId":"claude-haiku-4-5","usage":{"inputTokens":1,"outputTokens":2,"cost":"0.1"}}}
{"type":"finish","messageMetadata":{"usage":{"inputTokens":101,"outputTokens":52}}}`,
			`"usage":{"inputTokens":100,"outputTokens":50,"cachedTokens":30,"cacheWriteTokens":10,"reasoningTokens":20,"cost":"0.0015"},"model":"claude-sonnet-4-5"
"usage":{"inputTokens":1,"outputTokens":2,"cost":"0.1"},"model":"claude-haiku-4-5"`},
		"usage of a finish is that of the message": {`{"type":"start-step"}
{"type":"finish-step"}
{"type":"start-step"}
{"type":"finish-step"}
{"type":"finish","messageMetadata":{"usage":{"inputTokens":7,"outputTokens":null}}}`, `
"usage":{"inputTokens":7,"outputTokens":0}`},
		"without steps": {`{"type":"start","messageMetadata":{"model":"m"}}
{"type":"text-start","id":"t"}
{"type":"text-delta","id":"t","delta":"Hello"}
{"type":"text-end","id":"t"}
{"type":"finish","messageMetadata":{"usage":{"inputTokens":7,"outputTokens":8}}}`, `"usage":{"inputTokens":7,"outputTokens":8},"model":"m"`},
		"hostile values": {`{"type":"start","messageMetadata":{"model":"` + long + `","modelId":7,"provider":["x"],"usage":"many"}}
{"type":"start-step"}
{"type":"finish-step"}
{"type":"message-metadata","messageMetadata":{"model":{},"provider":"a\nb","usage":{"inputTokens":-5,"outputTokens":1e999,"reasoningTokens":"x","cost":"1e999"}}}
{"type":"finish","messageMetadata":{"totalUsage":[1]}}`, `"usage":{"inputTokens":-5,"outputTokens":0}`},
	} {
		got := translated(t, newTestTranslator(), c.parts)
		var ends []string
		for line := range strings.Lines(got) {
			if _, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "step_end"); ok {
				ends = append(ends, strings.TrimPrefix(rest, ","))
			}
		}
		if all := strings.Join(ends, "\n"); all != c.want {
			t.Errorf("%s: step_end has\n%s\nwant\n%s", name, all, c.want)
		}
		if n, want := strings.Count(got, `"eventName":"message-metadata"`), strings.Count(c.parts, `"messageMetadata"`); n != want {
			t.Errorf("%s: %d metadata, want %d", name, n, want)
		}
		if !strings.HasSuffix(got, "stream_end,\"streamId\":\"s1\"\n") {
			t.Errorf("%s: the run does not end:\n%.1000s", name, got)
		}
	}
}
