// Package deadletters keeps messages of the log that could not be folded.
//
// A Box is the stream of them. It is told of a record by the Runner, whose
// projector.DeadLetter it is, and of a message that is no record at all by
// natssource; it fetches the message from the log and keeps its bytes as they
// were, headers included, with its place and the reason:
//
//	box, err := deadletters.New(js, deadletters.Config{})
//	runner, err := projector.NewRunner(source, store, log, projector.Config{DeadLetter: box})
//
// Telling it twice keeps one letter: each has a subject made of its place in the
// log and the time when the log stored it, and a subject takes one message. So a
// Runner that was killed may simply report again.
//
// A letter is read with Get and All, and ends in one of three ways: it gets too
// old, somebody drops it, or a newer build can fold it:
//
//	for i, err := range box.Replay(ctx, letters, store, log) {
//		if errors.Is(err, deadletters.ErrStillDead) {
//			// this build cannot read letters[i] either
//		}
//	}
//
// Replay folds the whole session anew: the record has its place in the middle of
// others. What is in a letter may have been written by anybody, to do harm; who
// prints it quotes it.
package deadletters
