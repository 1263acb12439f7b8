// Package seedtest is the dice of random tests: other ones each time, and those of
// a run that failed again with -seed.
//
//	random := seedtest.Rand(t)
package seedtest

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var given = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

// Seed is the one that was given, or a drawn one. The test says which.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := *given
	if seed == 0 {
		seed = rand.Uint64()
	}
	tb.Logf("again with: -seed %d", seed)
	return seed
}

// Rand is a generator that begins with Seed.
func Rand(tb testing.TB) *rand.Rand {
	tb.Helper()
	return rand.New(rand.NewPCG(Seed(tb), 0))
}
