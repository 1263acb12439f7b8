package openaistream

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Usage has the tokens of a response, and what the endpoint has charged for it (OpenRouter), nil if it does not say so.
type Usage struct {
	In, Out, Cached, Written, Reasoning int64
	Cost                                *string
}

// usageOf reads the usage of a response. The APIs have different names for input and output.
func usageOf(v []byte, in, out string) *Usage {
	u := &Usage{
		In: count(v, in+"_tokens"), Out: count(v, out+"_tokens"),
		Cached: count(v, in+"_tokens_details", "cached_tokens"), Written: count(v, in+"_tokens_details", "cache_write_tokens"),
		Reasoning: count(v, out+"_tokens_details", "reasoning_tokens"), Cost: chunk.CostOf(chunk.Number(rawjson.Get(v, "cost"))),
	}
	if u.Reasoning > 0 && count(v, "total_tokens") == u.In+u.Out+u.Reasoning {
		u.Out += u.Reasoning // xAI counts them apart
	}
	return u
}

// Add adds the usage of another response.
func (u *Usage) Add(more *Usage) {
	u.In += more.In
	u.Out += more.Out
	u.Cached += more.Cached
	u.Written += more.Written
	u.Reasoning += more.Reasoning
	u.Cost = sum(u.Cost, more.Cost)
}

// sum adds two decimals of which one or both may be missing.
func sum(a, b *string) *string {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	x, _ := new(big.Rat).SetString(*a)
	y, _ := new(big.Rat).SetString(*b)
	text := strings.TrimRight(x.Add(x, y).FloatString(18), "0")
	return chunk.CostOf(chunk.Number(strings.TrimSuffix(text, ".")))
}

// Chunk returns the usage as a step_end has it.
func (u *Usage) Chunk() *chunk.Usage {
	maybe := func(n int64) *chunk.Number {
		if n == 0 {
			return nil
		}
		return new(number(n))
	}
	return &chunk.Usage{
		InputTokens: number(u.In), OutputTokens: number(u.Out), CachedTokens: maybe(u.Cached), CacheWriteTokens: maybe(u.Written),
		ReasoningTokens: maybe(u.Reasoning), Cost: u.Cost,
	}
}

func number(n int64) chunk.Number { return chunk.Number(strconv.FormatInt(n, 10)) }
