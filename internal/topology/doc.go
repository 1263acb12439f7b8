// Package topology creates and checks the streams and the buckets that Tailrace
// lives on.
//
//	TR_CHUNKS_<p>    the log, one stream per partition
//	TR_COMMANDS      work for workers, a work queue
//	TR_DEADLINES     when workers are to look at runs that wait
//	TR_INBOX         what people say to runs, a key-value bucket
//	TR_SNAPSHOTS     the folds, a key-value bucket
//	TR_OBJECTS       what is too large for it, an object bucket
//	TR_DEADLETTERS   messages of the log that could not be folded
//
// Every program calls Ensure (or Verify, when its account may not create) once
// at the start, before it reads or writes:
//
//	if err := topology.Ensure(ctx, js, topology.Config{Replicas: 3}); err != nil {
//		return err // already in words for whoever runs the server
//	}
//
// What is missing is made; what is there is never changed, only compared. A
// stream that differs is refused with a *DiffError, one line for each setting,
// because a program cannot know which side is right, and the wrong settings
// lose data without a word: a lower limit trims sessions, a forgotten
// partition hides them.
//
// # Changing the number of partitions
//
// A session's partition is a hash modulo the number, so another number sends
// running sessions to other streams. The number is therefore kept in each
// stream (metadata tailrace.partitions) and a program with another one is
// refused. To change it: stop all writers, wait until no session is wanted any
// longer (72 hours after the last write the log is empty by itself) or copy each
// session to its new subject, delete the TR_CHUNKS streams and start again
// with the new number. Snapshots name sequences of the old streams: delete
// the buckets too.
package topology
