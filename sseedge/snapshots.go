package sseedge

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
)

// Snapshots is where pages start from. It may be asked by many requests at once.
type Snapshots interface {
	// Snapshot is the fold of s up to the present end of its log, as of the
	// call: fresh and exact, also when the projector lags. The errors are
	// chunk.ErrUnknownSession when neither the log nor the store has the session,
	// and chunk.ErrUnknownMessage when there is none of the id Before.
	Snapshot(ctx context.Context, s chunk.Session, w Want) (Snapshot, error)
}

// Want says what of a session is asked for. The zero Want is the whole
// conversation without what is on its way.
type Want struct {
	// Partial is with the message in flight, and stands at the exact last record.
	// Without it the snapshot stands just before that message.
	Partial bool

	// Messages is how many messages are wanted, the last ones, and what is not
	// wanted should not cost anything. 0: all.
	Messages int

	// Before is the id of a message, when Messages is not 0: those before it are
	// wanted. "": those at the end.
	Before string
}

// Past is what a Snapshots can do beside if it can also tell how a session stood
// before. It may take long: it is given as much time as Config.Rewind, for one
// session once at a time.
type Past interface {
	// At is what Snapshot gave when the log ended at a sequence. The errors, beside
	// those of Snapshot: a *chunk.TruncatedError, of the reason future when the log
	// has not come so far, of any other when it does not reach back so far.
	At(ctx context.Context, s chunk.Session, seq chunk.Seq, partial bool) (Snapshot, error)

	// Checkpoint is what a checkpoint holds: everything up to its record, where it
	// stands, with the status ended. The errors, beside those of At:
	// chunk.ErrUnknownCheckpoint.
	Checkpoint(ctx context.Context, s chunk.Session, id string) (Snapshot, error)
}

// Snapshot is what one session amounts to at a position.
type Snapshot struct {
	// Position is the exclusive cursor from which a stream goes on. Its Ordinal
	// is that of the record at Seq, or 0 when it is not known.
	Position chunk.Position

	Status string // active, paused, ended or failed

	// Page is the whole snapshot as a browser loads it: the JSON object of
	// spec/helix.md section 5.1, with members of its maker's own beside. It is
	// served as it is.
	Page chunk.Value

	// Made is the member timestamp of Page, in Unix milliseconds: the one thing in
	// it that the log does not say.
	Made int64

	Messages []Message // in the order of the conversation, for pages of history

	// Before is the id to ask for older messages with, nil when there are none. If
	// so many were wanted it is a member "before" of Page as well, or null.
	Before *string
}

// Message is one message of the conversation.
type Message struct {
	ID   string
	JSON chunk.Value // the UI message, as the page wants it
}

// over reports whether nothing more comes until somebody starts a new run.
func (s Snapshot) over() bool { return s.Status == "ended" || s.Status == "failed" }
