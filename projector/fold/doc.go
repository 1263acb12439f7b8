// Package fold computes the snapshot of a session from its records: a pure function from a Snapshot and a record to the next
// Snapshot, without clock and I/O.
//
//	s := fold.New(session)
//	for rec, err := range records {
//		…
//		s, err = fold.Apply(s, rec)
//		switch {
//		case errors.Is(err, fold.ErrGap):    // read the records in between first
//		case errors.Is(err, fold.ErrInvalidRecord): // count it, then s = fold.Skip(s, rec, reason)
//		case errors.Is(err, fold.ErrRefold): // continue from RefoldError.Base
//		}
//	}
//	page := s.Frontend(false, now) // what a browser loads
//
// # Contents of a snapshot
//
// A Snapshot names the record that it was folded to, and contains the content of the log up to there: the status and the run,
// the custom state, usage, pending calls, and the messages. Folding the same records always returns the same bytes.
//
// Messages are counted as in the history of a model: one for each user input, one for each step of an answer that has output.
// Message n has the id msg-<n> everywhere; the steps of one turn are shown as one message with the id of the first one. A
// message is open while a record may still change it. When it is complete (its step has ended, its calls have an outcome) it is
// finished: encoded once, never changed, stored once. The rest, the head, stays small for sessions of any length.
//
// # Ownership
//
// Apply, Skip and SkipGap consume their argument: use their result and drop the argument. Therefore the cost of a delta depends
// on its own length and not on the message. To fold two histories from one snapshot, load it twice.
//
// # Removed records
//
// After a crash the log removes records: a truncated record lists their ordinals. The fold of the whole log and the fold of the
// remaining records must then be equal, because different readers see different parts. Rolling back record by record would need
// the memory of every record, so a snapshot contains two smaller copies of itself: the state when the turn opened and the state
// before the latest step. If a truncated record lists an applied record, Apply returns ErrRefold with the later of the two that
// precedes all removed records; the caller reads the remaining records after that position from the log and folds them. If a
// truncated record removes records before the turn, the fold restarts at the start of the log. The same code folds the
// remaining records in all cases.
//
// The copy from the start of the turn has a second use: it is what a page shows while the answer is in flight (see Frontend).
package fold
