// Package compact writes archives: of sessions that have ended and been quiet for
// a while, a compressed second copy of what the log has of them, which readers
// with consumers.Config.Archives take instead of walking through the log.
//
//	c, err := compact.New(js, compact.Config{After: 24 * time.Hour})
//	if err != nil {
//		return err
//	}
//	return c.Run(ctx)
//
// Nothing is removed from the log, and the log stays what is true: a reader takes
// an archive only after the leader has told that it is exactly what the log has.
// So a Compactor may die anywhere, several may work on the same sessions, and
// none needs to be told when a session goes on, is cleaned up, expires or is
// deleted. docs/adr/0009 has the proof.
package compact
