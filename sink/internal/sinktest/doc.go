// Package sinktest generates random logs of several sessions, for tests of what a sink writes: interleaved trees, sub-agents of sub-agents that outlive turns, takeovers,
// cleanups that reach back over outcomes and earlier runs, pauses, resumes, deletions, sessions that begin again, malformed and unknown records, usage and cost, and clocks that
// go backwards.
//
//	rapid.Check(t, func(t *rapid.T) {
//		log := sinktest.Logs(sinktest.Config{Trees: 2, Records: 80}).Draw(t, "log")
//		…
//	})
//
// Reference computes the rows that the rules demand of a log, independently of package observe.
//
// Only tests may import the package, because it imports pgregory.net/rapid.
package sinktest
