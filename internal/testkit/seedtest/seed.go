// Package seedtest provides random generators for tests. Each run uses a new seed;
// -seed repeats the run that failed.
//
//	random := seedtest.Rand(t)
package seedtest

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 selects a random one")

// Seed returns the seed of the flag, or a random one. It logs the seed.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	tb.Logf("repeat with: -seed %d", seed)
	return seed
}

// Rand returns a generator initialized with Seed.
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(Seed(tb), 0))
}
