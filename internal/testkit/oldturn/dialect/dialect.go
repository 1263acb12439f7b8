// Package dialect has what the writers of package oldturn share: the frames, the fast path, and what a hidden record ends.
package dialect

import "github.com/tailrace/tailrace/chunk"

// Writer writes one turn of a session, from the run_started record that opens it, in a dialect. What it writes depends on the records only, so every process
// that reads the same records writes the same bytes. A client that reconnects, also from another dialect, has the records up to its cursor: the server passes
// them to Append and drops the frames.
//
// A Writer has no clock and no I/O. It is not safe for concurrent use.
type Writer interface {
	// Append appends the frames of rec, the next record of the session or of one of its sub-agents. Some records have none. The last frame of a record has its
	// cursor, see Frames. A malformed record has no frames.
	Append(dst []byte, rec chunk.Record) []byte

	// Hide is Append for a record that is hidden from the client. It writes at most the end of a text that the record ends. Control records are not hidden.
	Hide(dst []byte, rec chunk.Record) []byte

	// Resume begins another response of the turn, for a client that has the records so far: it appends the event with which every response begins, without a
	// cursor, and what the clients of the dialect need besides to continue. The next Append writes the frames of the next record, also if Done was true.
	Resume(dst []byte) []byte

	// Done reports whether the frames that end the response were appended: the turn has ended, or waits for the user. Records may follow in the log: the
	// client gets them from its next response, whose Writer gets the earlier records again. Append after Done continues the turn if rec resumes it. A run_started
	// that opens another turn, see Turns, ends the response: the frames that end it have no cursor, and nothing of the record is written.
	Done() bool
}
