// Package logtest is a log in memory, for tests of what stands above the log:
// hub and edge. It can do what the real one does and what happens to the real
// one: clean-up in two steps, expiry, purge, a stream made again, a feed that
// breaks, lags or leaves something out, a server that cannot be asked.
//
//	log := logtest.New()
//	s := chunk.RootSession("t", "s1")
//	log.Append(s, chunk.TypeTextDelta, `"delta":"Hel"`)
//	h, err := hub.New(log, log, hub.Config{Encode: native.Encode})
//
// Nothing in it looks at a clock but the time of storing, so it runs in a bubble.
//
// Exercise is the contract of hub.Log and hub.Feed. The log in memory passes it,
// and so must every other that a hub is given: the fake cannot drift from the
// truth.
package logtest
