// Package memlog is a log in memory, for tests of the packages that read the log: hub and edge. It supports everything that happens to a real log:
// cleanup in two steps, expiry, purge, a recreated stream, a feed that breaks, lags or leaves something out, an unavailable server.
//
//	log := memlog.New()
//	s := chunk.RootSession("t", "s1")
//	log.Append(s, chunk.TypeTextDelta, `"delta":"Hel"`)
//	h, err := hub.New(log, log, hub.Config{Encode: helix.Encode})
//
// It uses the clock only for the time of storing, so it runs in a synctest bubble.
//
// RunContract is the contract of hub.Log and hub.Feed. The log in memory passes it, and every other implementation must too, so that the fake cannot differ
// from the real one.
package memlog
