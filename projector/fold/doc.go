// Package fold computes the snapshot of a session from its records, without clock and I/O.
//
//	f := fold.New(session)
//	for rec, err := range records {
//		…
//		err = f.Apply(rec)
//		switch {
//		case errors.Is(err, fold.ErrGap):           // read the records in between first
//		case errors.Is(err, fold.ErrInvalidRecord): // count it, then f.Skip(rec, reason)
//		case errors.Is(err, fold.ErrRefold):        // f.Reset to RefoldError.Base
//		}
//	}
//	page := aisdk.Snapshot(f.Snapshot(), aisdk.SnapshotOptions{}) // what a browser loads
//
// # Contents of a snapshot
//
// A Snapshot names the record that it was folded to, and contains the content of the log up to there: the status and the run,
// the custom state, usage, pending calls, and the messages. Folding the same records always returns the same bytes.
//
// Messages are counted as in the history of a model: one for each user input, one for each step of an answer that has output.
// Message n has the id msg-<n> everywhere; the steps of one turn are shown as one message with the id of the first one. A
// message is open while a record may still change it. When it is complete (its step has ended, its calls have an outcome) it is
// finished: encoded once, never changed, stored once. The same holds for segments, runs of complete parts, of an open message of
// many parts. The rest, the head, stays small for sessions and turns of any length.
//
// # Ownership
//
// A Folder has one owner. A Snapshot is a value that nothing changes: it may be kept, read concurrently, and several Folders may
// continue from it. The cost of a delta depends on its own length and not on the message, because a Folder changes the open
// messages in place. Only its first change after a call of Snapshot copies them.
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
// The copy from the start of the turn has a second use: it is what a page shows while the answer is in flight (see Snapshot.BeforeAnswer).
package fold
