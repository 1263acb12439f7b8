package fold

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

var (
	// ErrGap reports a record that is not the next one of its session. Nothing
	// changed: read the records in between from the log, then apply them all.
	ErrGap = errors.New("records are missing before this one")

	// ErrPoison reports a record whose body cannot be read. Nothing changed:
	// report it and pass it with Skip.
	ErrPoison = errors.New("the record cannot be read")

	// ErrForeign reports a record of another session. Nothing changed.
	ErrForeign = errors.New("the record belongs to another session")

	// ErrRefold reports a mark that takes back records which were applied. A
	// *RefoldError wraps it and holds the snapshot to go on from.
	ErrRefold = errors.New("applied records were taken back")

	// ErrRewound reports a record that a later writer put where s has had one: the
	// log was set back, as by restoring an older copy, and went on differently.
	// Nothing changed: fold the session anew.
	ErrRewound = errors.New("the log was set back behind the snapshot")

	// ErrVersion reports a stored snapshot of another version of the code. Fold
	// the session anew.
	ErrVersion = errors.New("the snapshot has another version")

	// ErrNewer is an ErrVersion of a version that this code does not know yet. Do
	// not replace it: it may hold what the log has forgotten.
	ErrNewer = fmt.Errorf("%w, a newer one", ErrVersion)
)

// RefoldError is ErrRefold with the place to go on from: read the records after
// Base.Position from the log and apply them to Base. Those that the mark lists
// may still be in the log; Base knows them and passes them over.
type RefoldError struct {
	Base Snapshot
	Mark chunk.Position // the truncated record
}

func (e *RefoldError) Error() string {
	return fmt.Sprintf("session %s at %d: %v, go on from %d", e.Base.Session, e.Mark.Seq, ErrRefold, e.Base.Position.Seq)
}

// Is makes a RefoldError an ErrRefold.
func (e *RefoldError) Is(target error) bool { return target == ErrRefold }

// clip keeps a reason short enough for a head, without cutting a character.
func clip(reason string) string {
	const most = 200
	return cut(reason, most)
}

// cut is the beginning of a text, without half a character at its end.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	n := most
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
