package codec

import "github.com/tailrace/tailrace/chunk"

// Writer writes one turn of a session, from the run_started record that opens it, in a dialect. What it writes depends on the records only, so every process
// that reads the same records writes the same bytes. A client that reconnects, also from another dialect, has the records up to its cursor: the server passes
// them to Append and drops the frames.
//
// A Writer has no clock and no I/O. It is not safe for concurrent use.
type Writer interface {
	// Append appends the frames of rec, the next record of the session or of one of its sub-agents. Some records have none. The last frame of a record has its
	// cursor as its id. A malformed record has no frames.
	Append(dst []byte, rec chunk.Record) []byte

	// Hide is Append for a record that is hidden from the client. It writes at most the end of a text that the record ends. Control records are not hidden.
	Hide(dst []byte, rec chunk.Record) []byte

	// Resume begins another response of the turn, for a client that has the records so far: it appends the event with which every response begins, without a
	// cursor, and what the clients of the dialect need besides to continue. The next Append writes the frames of the next record, also if Done was true.
	Resume(dst []byte) []byte

	// Done reports whether the frames that end the response were appended: the turn has ended, or waits for the user. Records may follow in the log: the
	// client gets them from its next response, whose Writer gets the earlier records again. Append after Done continues the turn if rec resumes it. A run_started
	// that opens another turn ends the response: the frames that end it have no cursor, and nothing of the record is written.
	Done() bool
}

// Translator translates the chunks of one run of an agent in a dialect, in all its responses, to those of the log. The same input gives the same output. It is
// not safe for concurrent use.
type Translator interface {
	// Translate translates one chunk, JSON in UTF-8. The result may be empty and belongs to the caller. Its chunks are in log order: AgentID is the session of
	// the chunk, that of the run or of a sub-agent, whose subagent_start precedes it. It has stream_end, stream_failed, stream_paused and stream_active where a
	// response ends, waits or continues, and never a run_started. Timestamps are 0. The error is chunk.ErrInvalid, and then nothing has changed.
	Translate(raw []byte) ([]chunk.Chunk, error)

	// End returns the chunks for the end of a response: the run ended, failed or pauses. If the response stopped without a reason, the run failed.
	End() []chunk.Chunk
}

// Run describes the run that a Translator translates.
type Run struct {
	Session   string // id of its session
	AgentType string // of chunks that do not name the definition of their agent
	RunID     string // "" if it is not known yet
	Step      int64  // that the run has reached, 0 before the first: a Translator of a later response continues counting
}
