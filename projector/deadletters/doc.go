// Package deadletters keeps messages of the log that could not be folded.
//
// A Store is the stream of dead letters. The Runner reports records to it as its projector.DeadLetterSink, and the Source reports messages that are not
// records. The Store reads the message from the log and stores its bytes unchanged, headers included, with its position in the log and the reason:
//
//	store, err := deadletters.New(js, deadletters.Config{})
//	runner, err := projector.NewRunner(source, snapshots, log, projector.Config{DeadLetter: store})
//
// Adding a message twice stores one entry: the subject of an entry is made of the position of the message in the log and the time at which the log
// stored it, and a subject takes one message. So a Runner that was killed may report the same message again.
//
// Get and All read entries. An entry ends when it expires, when it is deleted, or when a newer build can fold its message:
//
//	for i, err := range store.Replay(ctx, entries, snapshots, log) {
//		if errors.Is(err, deadletters.ErrStillUnreadable) {
//			// this build cannot read entries[i] either
//		}
//	}
//
// Replay refolds the whole session, because the record has its position between others. The content of an entry is untrusted input: quote it when you
// print it.
package deadletters
