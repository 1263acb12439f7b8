package row

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Position is a place in the log of one partition: all records up to it are stored, each once.
type Position struct {
	Partition int

	// Generation counts the histories of the partition from 1. It rises when the log was created again or restored from a backup. 0 is before the first record.
	Generation int

	// History is the stream epoch of the log, see chunk.Tip. If the log was rolled back without a new epoch, a suffix follows: ".2" for the second history with
	// that epoch. So (History, Partition, Seq) names one record.
	History string

	Seq      chunk.Seq
	Anchor   chunk.Anchor // of the record at Seq, 0 if it is unknown
	StoredAt time.Time    // of the record at Seq; zero if it is unknown
}

// Batch has the rows of the records of a partition after one position and up to another one. The rows of each table are in the order of their Seq.
type Batch struct {
	Through      Position
	Events       []Event
	Observations []Observation
	Gaps         []Gap // those that erase are applied to the rows of earlier batches, and to those of this one
}

// ErrConflict is returned by Store.Commit if the stored position is not the one that the batch continues from: another process has stored more.
var ErrConflict = errors.New("another process has stored records after this position")

// ErrOtherTenant is returned by Store.Begin if the store has the rows of another tenant than the sink: those of its own before the position would be missing. No retry repairs it.
var ErrOtherTenant = errors.New("the store has the rows of another tenant")

// Store keeps rows and, with them, the position in each partition up to which they are complete. Its methods may be called concurrently for different partitions.
//
// The rows of the records between two positions are a function of the log, so two writers at one position write equal rows, and a repeated batch has the same rows as the
// one before: only its end may differ.
type Store interface {
	// Begin waits until no other process writes to the store, where the store can know that, and returns the position of each partition. It may be called again.
	Begin(ctx context.Context, partitions int) ([]Position, error)

	// Commit stores a batch and its position as one step: after an error none or all of it is stored, and the caller reads the position again with Begin.
	// After is the stored position, as Begin has returned it or the last batch had it; ErrConflict means that it is not. The store keeps nothing of b. The first batch of a Generation has no rows but a Gap that says what the
	// log has lost; its position may be before that of the generation before.
	Commit(ctx context.Context, after Position, b *Batch) error

	// Before returns the position of the newest batch of a partition before at, and false if there is none. It names each earlier
	// generation: of one whose batches are not known, it returns a position without sequence and anchor.
	Before(ctx context.Context, at Position) (Position, bool, error)

	// Positions returns what Begin returns, without waiting for other processes. A position may be older than the stored one; it may not be written after.
	Positions(ctx context.Context, partitions int) ([]Position, error)

	// Sessions calls yield with the place of the last row of each session, as far as rows count: they are neither erased nor lost by the log. It needs no Begin.
	Sessions(ctx context.Context, of Selection, yield func(Place) error) error

	// Delete stores gaps of one partition that erase, and no position: the rows that they cover, which are stored already, no longer count. It needs no Begin, so that
	// any process may call it beside the one that commits, also with gaps that are stored. After an error none or all of them are stored.
	Delete(ctx context.Context, gaps []Gap) error

	// Close lets another process write. Calls in progress end with an error, or it waits for them.
	Close() error
}

// Selection selects sessions of a partition.
type Selection struct {
	Partition int

	// Since leaves out the sessions whose last row was stored before.
	Since time.Time

	// Tenant and Root, if not empty, leave out all others.
	Tenant, Root string
}
