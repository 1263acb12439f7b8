//go:build !race

package observe_test

const slowdown = 1
