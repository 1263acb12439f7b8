//go:build race

package chunk_test

const raceEnabled = true // sync.Pool forgets on purpose under the race detector
