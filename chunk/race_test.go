//go:build race

package chunk_test

const raceEnabled = true // under the race detector sync.Pool drops values at random
