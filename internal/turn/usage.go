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
	for name, n := range rawjson.Members(v) {
		var sum *int64
		switch {
		case name.Is("inputTokens"):
			sum = &u.Input
		case name.Is("outputTokens"):
			sum = &u.Output
		case name.Is("cachedTokens"):
			sum = &u.Cached
		case name.Is("cacheWriteTokens"):
			sum = &u.CacheWrite
		default:
			continue
		}
		*sum = min(chunk.MaxInteger, *sum+tokens(n))
	}
}

// tokens returns a number of tokens, 0 for another value.
func tokens(n chunk.Value) int64 {
	f, ok := chunk.Number(n).Float64()
	if !ok || math.IsNaN(f) || f <= 0 {
		return 0
	}
	return int64(min(f, chunk.MaxInteger))
}
