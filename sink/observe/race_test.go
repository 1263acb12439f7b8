//go:build race

package observe_test

const slowdown = 10 // of the race detector
