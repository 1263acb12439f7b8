// Package seedtest provides random generators for tests. The seed is that of -seed, or of RAPID_SEED, as for the property tests, or a random one.
//
//	random := seedtest.Rand(t)
package seedtest

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 selects that of RAPID_SEED, or a random one")

// Seed returns the seed. It logs it.
func Seed(tb testing.TB) uint64 {
	tb.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed, _ = strconv.ParseUint(os.Getenv("RAPID_SEED"), 10, 64)
	}
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
