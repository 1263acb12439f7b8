// Package fold makes a snapshot of a session out of its records: the pure step
// from one Snapshot and one record to the next Snapshot. No clock, no I/O.
//
//	s := fold.New(session)
//	for rec, err := range records {
//		…
//		s, err = fold.Apply(s, rec)
//		switch {
//		case errors.Is(err, fold.ErrGap):    // read the records in between first
//		case errors.Is(err, fold.ErrPoison): // count it, then s = fold.Skip(s, rec, reason)
//		case errors.Is(err, fold.ErrRefold): // go on from RefoldError.Base
//		}
//	}
//	page := s.Frontend(false, now) // what a browser loads
//
// # What a snapshot is
//
// A Snapshot names the record it was folded to, and holds what the log says up
// to there, nothing more and nothing less: the status and the run, the custom
// state, usage, the calls that wait for somebody, and the messages. Folding the
// same records always gives the same bytes.
//
// Messages are counted as a model's history counts them: one for each input of
// a person, one for each step of an answer that said something. Message n has
// the id msg-<n> wherever it is shown; the steps of one turn are shown as one
// message under the first one's id. A message is open while a record may still
// change it. When it is complete (its step is over, its calls have their
// outcome) it is finished: encoded once, never touched again, stored once. What
// is left, the head, stays small however long the session grows.
//
// # Who owns a Snapshot
//
// Apply, Skip and Restart consume their argument: use what they return and
// forget what you gave. That is what lets a delta cost its own length instead
// of the message's. Two histories from one snapshot need two loads of it.
//
// # What is taken back
//
// After a crash the log takes records back: a truncated record lists their
// ordinals. The fold of the whole and the fold of the survivors must then be
// the same, or two readers would disagree. Undoing record by record would need
// the memory of every record, so a snapshot keeps two smaller ones inside: how
// it stood when the turn opened and how it stood before the latest step began.
// When a mark arrives that lists an applied record, Apply reports ErrRefold with
// the later of the two that lies before everything taken back; the caller reads
// the survivors after that place from the log and folds them. A mark that
// reaches further back than the turn starts again from the beginning of the
// log. Nothing is guessed: the survivors are folded, by the same code.
//
// The one at the turn's opening is needed anyway: it is what a page shows while
// the answer is on its way (see Frontend).
package fold
