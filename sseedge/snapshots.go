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
	Snapshot(ctx context.Context, s chunk.Session, w SnapshotQuery) (Snapshot, error)
}

// SnapshotQuery selects parts of a session. The zero SnapshotQuery is the whole conversation without the message in flight.
type SnapshotQuery struct {
	// Partial includes the message in flight; the position is that of the last record.
	// Without it the position of the snapshot is just before that message.
	Partial bool

	// Messages is how many messages are wanted, the last ones, and what is not
	// wanted should not cost anything. 0: all.
	Messages int

	// Before is the id of a message, when Messages is not 0: those before it are
	// wanted. "": those at the end.
	Before string
}

// History is implemented by Snapshots that can also return earlier states. A call may take up to Config.HistoryTimeout, and there is one at a time for a
// session.
type History interface {
	// SnapshotAt returns what Snapshot returned when the log ended at a sequence. The errors, in addition to those of Snapshot: a *chunk.TruncatedError, with the
	// reason future if the sequence is beyond the end of the log, with any other if it has expired.
	SnapshotAt(ctx context.Context, s chunk.Session, seq chunk.Seq, partial bool) (Snapshot, error)

	// SnapshotAtCheckpoint returns the content of a checkpoint: everything up to its record, whose
	// position it has, with the status ended. The errors, in addition to those of SnapshotAt:
	// chunk.ErrUnknownCheckpoint.
	SnapshotAtCheckpoint(ctx context.Context, s chunk.Session, id string) (Snapshot, error)
}

// Snapshot is what one session amounts to at a position.
type Snapshot struct {
	// Position is the exclusive cursor after which a stream continues. Its Ordinal is that of the record at Seq, or 0 if it is not known.
	Position chunk.Position

	Status string // active, paused, ended or failed

	// JSON is the whole snapshot as a browser loads it: the JSON object of
	// spec/helix.md section 5.1, with members of its maker's own beside. It is
	// served as it is.
	JSON chunk.Value

	// GeneratedAt is the member timestamp of JSON, in Unix milliseconds: the one thing in
	// it that the log does not say.
	GeneratedAt int64

	Messages []UIMessage // in the order of the conversation, for pages of history

	// Before is the id to ask for older messages with, nil when there are none. If
	// so many were wanted it is a member "before" of JSON as well, or null.
	Before *string
}

// UIMessage is one message of the conversation.
type UIMessage struct {
	ID   string
	JSON chunk.Value // the UI message, as the page wants it
}

// over reports whether no record follows until a new run is started.
func (s Snapshot) over() bool { return s.Status == "ended" || s.Status == "failed" }
