package fold

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

var (
	// ErrGap reports a record that is not the next one of its session. The snapshot is unchanged: read the records in between
	// from the log, then apply them all. If the record was stored after the position with an ordinal that was applied already, the log
	// shows whether it starts with that record: then all records of the snapshot have expired, see SkipGap and GapExpired.
	ErrGap = errors.New("missing records")

	// ErrInvalidRecord reports a record with an unreadable body. The snapshot is unchanged: report the record and call Skip.
	ErrInvalidRecord = errors.New("the record cannot be read")

	// ErrWrongSession reports a record of another session. The snapshot is unchanged.
	ErrWrongSession = errors.New("wrong session")

	// ErrRefold reports a truncated record that removes applied records. A *RefoldError wraps it and holds the snapshot to
	// continue from.
	ErrRefold = errors.New("applied records removed")

	// ErrLogRolledBack reports a record of a later epoch at an ordinal that was applied already: the log was rolled back, for
	// example by restoring an older copy, and continued differently. The snapshot is unchanged: refold the session.
	ErrLogRolledBack = errors.New("log rolled back")

	// ErrVersion reports a stored snapshot of another version of the code. Refold the session.
	ErrVersion = errors.New("unsupported snapshot version")

	// ErrNewerVersion is an ErrVersion for a version that this code does not know yet. Do not replace the snapshot: it may
	// contain records that have expired from the log.
	ErrNewerVersion = fmt.Errorf("%w: written by a newer build", ErrVersion)
)

// RefoldError is an ErrRefold with the snapshot to continue from: read the records after Base.Position from the log and apply
// them to Base. The removed records may still be in the log; Base skips them.
type RefoldError struct {
	Base       Snapshot
	Truncation chunk.Position // the truncated record
}

func (e *RefoldError) Error() string {
	return fmt.Sprintf("session %s at %d: %v, continue from %d", e.Base.Session, e.Truncation.Seq, ErrRefold, e.Base.Position.Seq)
}

// Is reports whether target is ErrRefold.
func (e *RefoldError) Is(target error) bool { return target == ErrRefold }

// clip shortens a reason for the head, at a character boundary.
func clip(reason string) string {
	const maxReason = 200
	return cut(reason, maxReason)
}

// cut returns the first maxBytes bytes of a text, fewer if the cut would split a character.
func cut(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	n := maxBytes
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
