package dialect

import (
	"cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// UsageOf returns the tokens in a usage of the AI SDK, nil if it has none: LanguageModelUsage of version 5, which Mastra has too, and of 6 and 7, which has the parts in
// inputTokenDetails and outputTokenDetails. A cost, which applications add, is a number or a decimal in a string.
func UsageOf(v chunk.Value) *chunk.Usage {
	in, out := numberAt(v, "inputTokens"), numberAt(v, "outputTokens")
	if in == nil && out == nil {
		return nil
	}
	zero := new(chunk.Number("0"))
	u := &chunk.Usage{
		InputTokens: *cmp.Or(in, zero), OutputTokens: *cmp.Or(out, zero),
		CachedTokens:     cmp.Or(numberAt(v, "cachedInputTokens"), numberAt(v, "inputTokenDetails", "cacheReadTokens")),
		CacheWriteTokens: cmp.Or(numberAt(v, "cacheCreationInputTokens"), numberAt(v, "inputTokenDetails", "cacheWriteTokens")),
		ReasoningTokens:  cmp.Or(numberAt(v, "reasoningTokens"), numberAt(v, "outputTokenDetails", "reasoningTokens")),
	}
	cost := rawjson.Get(v, "cost")
	if text, err := rawjson.Text(cost).Unquote(); err == nil {
		cost = []byte(text)
	}
	u.Cost = chunk.CostOf(chunk.Number(cost))
	return u
}

// numberAt returns the number at a path, nil for another value.
func numberAt(v []byte, path ...string) *chunk.Number {
	var n chunk.Number
	if at := rawjson.Get(v, path...); len(at) == 0 || n.UnmarshalJSON(at) != nil {
		return nil
	}
	return &n
}
