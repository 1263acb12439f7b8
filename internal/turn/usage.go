package turn

import (
	"math"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Usage is a number of tokens. Each is at most chunk.MaxInteger.
type Usage struct {
	Input, Output, Cached, CacheWrite int64
}

// Add adds the usage of a step_end.
func (u *Usage) Add(v chunk.Value) {
	add := func(sum *int64, name string) { *sum = min(chunk.MaxInteger, *sum+tokens(rawjson.Get(v, name))) }
	add(&u.Input, "inputTokens")
	add(&u.Output, "outputTokens")
	add(&u.Cached, "cachedTokens")
	add(&u.CacheWrite, "cacheWriteTokens")
}

// tokens returns a number of tokens, 0 for another value.
func tokens(n chunk.Value) int64 {
	if n == nil {
		return 0
	}
	f, ok := chunk.Number(n).Float64()
	if !ok || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return int64(min(f, chunk.MaxInteger))
}
