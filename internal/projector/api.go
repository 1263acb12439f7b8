package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Source delivers the records of a partition: each at least once, in any order.
type Source interface {
	// Run calls take with batches until ctx ends, and then returns its error, or until the Source fails. It calls take from one
	// goroutine at a time; take blocks while the Runner is busy, and the Runner owns the batch afterwards. A nil error of take
	// does not acknowledge the batch: a delivery is handled when its Ack is called, which may happen after the next take and
	// from another goroutine. Deliveries without an Ack are redelivered after a delay, possibly to another Runner.
	Run(ctx context.Context, take func(ctx context.Context, batch []Delivery) error) error

	// Release lets another Runner have the partition at once, with all deliveries that are not acknowledged. The Runner calls it
	// once, after Run has returned and after its last Ack: a later Ack might come after the redelivery to the next Runner.
	Release(ctx context.Context)
}

// Delivery is one record and its acknowledgement.
type Delivery struct {
	Record chunk.Record
	Acker  Acker

	TraceParent string // see codec.TraceParentOf; "" for none
}

// Acker acknowledges one delivery. An Ack that is lost or fails only causes a redelivery.
type Acker interface {
	Ack() error
}

// Log is the source of missing records. Calls may overlap.
type Log interface {
	replayer

	// Last returns the last record of s as the leader of the log has it: it is not older than any record whose writer got a
	// confirmation. It returns chunk.ErrUnknownSession if the log has no record of s.
	Last(ctx context.Context, s chunk.Session) (chunk.Record, error)

	// HasRecord reports whether the log has the record at a position; false if it cannot tell. It returns a
	// *chunk.TruncatedError with the reason "recreated" if it has other records of s up to the position: the log was rolled back.
	HasRecord(ctx context.Context, s chunk.Session, at chunk.Position, anchor chunk.Anchor) (bool, error)
}

// replayer is the part of a Log that a fold uses.
type replayer interface {
	// Replay yields the records of a range of one session to the current end, in order, then at most one error; the fold sets
	// neither Tree nor Through. It skips missing ordinals only if a later truncated record lists them. Errors:
	// chunk.ErrUnknownSession if the log has no record of the session, or no records at all; *chunk.TruncatedError.
	Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error]
}

// Revision is the version of a stored head. It is zero for a session without a head.
type Revision uint64

// Store keeps snapshots: one head per session, which is replaced by compare-and-set, and the packs of finished messages, each of
// which is written once and shared by all later heads. Calls may overlap, also for one session. Load, Messages and Range count what
// they read with CountRead, and return its error.
type Store interface {
	// Load returns the head of s without its finished messages. Errors: ErrNoSnapshot; fold.ErrVersion and ErrCorrupt for an
	// unusable head, which the returned Revision can replace.
	Load(ctx context.Context, s chunk.Session) (fold.Snapshot, Revision, error)

	// Messages returns the data of the finished messages that snap does not hold, in order. It returns fold.ErrInconsistent if
	// one of them is missing, which may be temporary.
	Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error)

	// Range returns the data of finished messages from..to-1 of those that snap does not hold, for the head with a Revision
	// that snap was folded from. The hash in the head covers all messages but not a part of them, so the Store proves that the
	// messages belong to that head. If it cannot, it returns fold.ErrInconsistent, and the caller loads the head again.
	Range(ctx context.Context, snap fold.Snapshot, head Revision, from, to int) ([][]byte, error)

	// Save stores the packs that snap holds, then its head if the stored head still has the Revision. Errors:
	// ErrConflict if it has not, or if this call has replaced the head and the response was lost; a *TooLargeError if a part of
	// snap is too large. Any other error leaves open whether the head was stored. Save retains nothing of snap. It treats the
	// head of a tombstone like any other head.
	Save(ctx context.Context, snap fold.Snapshot, after Revision) (Revision, error)

	// OwnedByOther reports whether the index has the owner of a root session, or that it has none, and not subject. It takes the same time whether another
	// subject owns the session or it does not exist. False says nothing: the session may not be saved yet, or may have been deleted and started again. The
	// owner is that of the head.
	OwnedByOther(ctx context.Context, s chunk.Session, subject string) (bool, error)

	// Value returns the large value with a key, and its media type. The error is chunk.ErrUnknownValue if the session does not have it. It counts what it reads with
	// CountRead.
	Value(ctx context.Context, s chunk.Session, key string) (data []byte, mediaType string, err error)
}

// DeadLetterSink receives records that cannot be folded, before they are skipped. It may receive a record more than once. After
// an error the Runner retries the session; after several failures it skips the record anyway and records a fault in the
// snapshot.
type DeadLetterSink interface {
	Add(ctx context.Context, rec chunk.Record, reason string) error
}

var (
	// ErrNoSnapshot reports a session without a stored head.
	ErrNoSnapshot = errors.New("no stored snapshot")

	// ErrCorrupt reports a stored head that cannot be read. The session is refolded.
	ErrCorrupt = errors.New("unreadable head")

	// ErrConflict reports a head that another writer has replaced. Load it and fold again.
	ErrConflict = errors.New("stored snapshot changed")

	// ErrTooLarge reports a snapshot that the Store cannot hold. A *TooLargeError wraps it. The stored head does not change.
	ErrTooLarge = errors.New("snapshot too large")
)

// TooLargeError is an ErrTooLarge that names the object.
type TooLargeError struct {
	Session chunk.Session
	Object  string // "head" or "message 7"
	Size    int    // bytes
	Limit   int    // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("session %s: %s has %d bytes, want at most %d: %v", e.Session, e.Object, e.Size, e.Limit, ErrTooLarge)
}

// Is reports whether target is ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
