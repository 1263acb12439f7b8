package projector

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Source is the durable firehose of a partition: every record at least once, in
// any order.
type Source interface {
	// Run hands over batches until ctx ends, and then returns its error, or
	// until it cannot go on. It calls take from one goroutine at a time; take
	// blocks while the Runner is busy and owns the batch afterwards. A nil error
	// of take says nothing about what is in it: a delivery is done when its Ack
	// is called, which may be after the next take, from another goroutine.
	// Deliveries without an Ack come again after a while, also to somebody else.
	Run(ctx context.Context, take func(ctx context.Context, batch []Delivery) error) error
}

// Delivery is one record and the way to say that it was handled.
type Delivery struct {
	Record chunk.Record
	Acker  Acker
}

// Acker acknowledges one delivery. An Ack that gets lost, or fails, only means
// that the record comes again.
type Acker interface {
	Ack() error
}

// Log is where missing records are read from. Calls may overlap.
type Log interface {
	replays

	// Last is the last record of s, as the leader of the log has it: a record of
	// which somebody was told that it is stored, or a later one.
	// chunk.ErrUnknownSession when the log has no record of s.
	Last(ctx context.Context, s chunk.Session) (chunk.Record, error)
}

// replays are what a fold needs of a Log.
type replays interface {
	// Replay yields the records of s after a position to the present end, in
	// order, then at most one error. A hole in the ordinals is yielded over only
	// if a truncated record further on lists it. Errors: chunk.ErrUnknownSession
	// when the log has no record of s, or none at all; *chunk.TruncatedError.
	Replay(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error]

	// ReplayFloor is Replay from the first record after a position that is still
	// there, whatever its ordinal.
	ReplayFloor(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error]
}

// Revision is the version of a stored head. The zero Revision is of a session
// that has none.
type Revision uint64

// Store keeps snapshots: a head for each session, replaced by compare-and-set,
// and finished messages apart, each written once and shared by all later heads.
// Calls may overlap, also for one session.
type Store interface {
	// Load gives the head of s, without its finished messages. Errors:
	// ErrNoSnapshot; fold.ErrVersion and ErrDamaged for a head that cannot be
	// used, and then the Revision is good for replacing it.
	Load(ctx context.Context, s chunk.Session) (fold.Snapshot, Revision, error)

	// Messages gives the data of the finished messages that snap misses, in
	// order. It is fold.ErrTorn when one of them is not there (yet).
	Messages(ctx context.Context, snap fold.Snapshot) ([][]byte, error)

	// Range gives the data of finished messages from..to-1 of those that snap
	// misses, for the head with a Revision that snap was folded from. A part is not
	// proved by the head's hash, as all of them are, so the Store proves that they
	// are the head's: otherwise it is fold.ErrTorn, and the head is to be loaded
	// again.
	Range(ctx context.Context, snap fold.Snapshot, head Revision, from, to int) ([][]byte, error)

	// Save stores the finished messages that snap holds, then its head if the
	// stored one still has the Revision. Errors: ErrConflict when it has not, a
	// *TooLargeError when a part of snap does not fit. Any other error leaves it
	// open whether the head was stored. Nothing of snap is kept. The head of a
	// fold.Grave is stored like others, and refuses them in the same way.
	Save(ctx context.Context, snap fold.Snapshot, after Revision) (Revision, error)
}

// DeadLetter is told of records that cannot be folded, before they are passed.
// It may be told of one more than once. After an error the session is tried again;
// when that has failed often enough the record is passed all the same: the
// snapshot has a mark.
type DeadLetter interface {
	Bury(ctx context.Context, rec chunk.Record, reason string) error
}

var (
	// ErrNoSnapshot reports a session that the Store has no head of.
	ErrNoSnapshot = errors.New("no snapshot of the session")

	// ErrDamaged reports a stored head that cannot be read. It is folded anew.
	ErrDamaged = errors.New("the stored head cannot be read")

	// ErrConflict reports a head that somebody else replaced. Load it again and
	// fold again.
	ErrConflict = errors.New("somebody else has saved the session")

	// ErrTooLarge reports a snapshot that the Store cannot hold. A *TooLargeError
	// wraps it. The previous head stays.
	ErrTooLarge = errors.New("the snapshot is too large for the store")
)

// TooLargeError is ErrTooLarge with what was too large.
type TooLargeError struct {
	Session chunk.Session
	What    string // "head", or "message 7"
	Size    int    // bytes
	Limit   int    // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("session %s: %s has %d bytes, want at most %d: %v", e.Session, e.What, e.Size, e.Limit, ErrTooLarge)
}

// Is makes a TooLargeError an ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
