package anthropic

import (
	"cmp"
	"math/big"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// usage has the tokens of a message, nil for those that no event had. A later event has the totals.
type usage struct{ in, out, read, written, thinking *chunk.Number }

func (u *usage) merge(o *dialect.Object) {
	u.in = cmp.Or(o.Number("input_tokens"), u.in)
	u.out = cmp.Or(o.Number("output_tokens"), u.out)
	u.read = cmp.Or(o.Number("cache_read_input_tokens"), u.read)
	u.written = cmp.Or(o.Number("cache_creation_input_tokens"), u.written)
	u.thinking = cmp.Or(o.Object("output_tokens_details").Number("thinking_tokens"), u.thinking)
}

// chunk returns the usage as a step_end has it, nil for none: its input includes what was read from the cache and written to it.
func (u *usage) chunk() *chunk.Usage {
	if u.in == nil && u.out == nil {
		return nil
	}
	zero := new(chunk.Number("0"))
	return &chunk.Usage{
		InputTokens: sum(*cmp.Or(u.in, zero), u.read, u.written), OutputTokens: *cmp.Or(u.out, zero),
		CachedTokens: u.read, CacheWriteTokens: u.written, ReasoningTokens: u.thinking,
	}
}

// sum adds counts. One that is not an integer does not count.
func sum(n chunk.Number, more ...*chunk.Number) chunk.Number {
	for _, m := range more {
		if m == nil {
			continue
		}
		x, isX := new(big.Int).SetString(string(n), 10)
		y, isY := new(big.Int).SetString(string(*m), 10)
		if isX && isY {
			n = chunk.Number(x.Add(x, y).String())
		}
	}
	return n
}
