package hub

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// Log is the history that a Hub reads if memory does not hold it. All methods are
// safe for concurrent use.
//
// An iterator ends without an error after it has yielded all requested records, else
// with one error, last: a *chunk.TruncatedError if the log cannot serve the records
// after the position (then it has skipped none before), any other error if the log is
// unavailable. A break releases the resources of the iterator. The Data of a record
// is read-only.
type Log interface {
	// Replay yields the records of a range. The Hub never sets FromOldest. A position
	// with an ordinal need not be the position of a record: Seq is where to start,
	// Ordinal is the last one seen, and the first record has the next ordinal or follows
	// a gap that a truncation record explains. Of a tree, the position is 0 or the
	// sequence of a record of the tree. Clients of the Hub have had the record there, so
	// it allows cleanups. If a replica has not reached Through, Replay
	// waits for it or returns an error.
	Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error]

	// CheckCursor returns the position of the record that a client claims to have seen:
	// a record of s or, in the scope of a tree, of any session with the same root. If
	// there is no such record, it returns a *chunk.TruncatedError with the reason, after
	// it has asked the leader. The reason of a cursor with an anchor is "recreated" if
	// its sequence is beyond the end or has a record with another anchor.
	CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error)

	// Last returns the last record of s as the leader knows it, or
	// chunk.ErrUnknownSession.
	Last(ctx context.Context, s chunk.Session) (chunk.Record, error)

	// Tip returns the end of a partition's stream, as the leader knows it.
	Tip(ctx context.Context, partition int) (chunk.Tip, error)
}

// Scope is what one feed delivers: a partition or, if Root is not zero, one tree in it.
type Scope struct {
	Partition int
	Root      chunk.Session
}

// Feed delivers live messages, in the order of the stream. The Hub keeps one iterator open for each scope that has clients.
type Feed interface {
	// Scope returns the scope of the tree of s. It is a pure function.
	Scope(s chunk.Session) Scope

	// AtStart returns the scopes that the Hub opens when it starts, without clients: a process without access to them does not become started.
	AtStart() []Scope

	// Open yields every message of a scope after the sequence, then live messages; it
	// ends only with an error or with ctx. It reconnects by itself as long as it misses no
	// message. If it has missed messages, or the stream was recreated, it must end with a
	// *chunk.TruncatedError (expired, future, recreated); the Hub then restarts at the tip.
	// If a message is missing and a later one was yielded, the reason is gap: the clients
	// of the scope must load their snapshots again.
	//
	// The Hub parses a message only if its session is watched: on a busy stream nearly
	// all messages belong to sessions without clients. A message that cannot be parsed
	// has no ordinal, so skipping it hides no record.
	Open(ctx context.Context, of Scope, after chunk.Seq) iter.Seq2[codec.Stored, error]
}

// PartitionLog is a log that is followed by partition, as by consumers.Reader.
type PartitionLog interface {
	// Feed is Feed.Open for a partition.
	Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error]
}

// ByPartition returns a Feed of whole partitions. of returns the partition of a session; all sessions of a root have the same one.
func ByPartition(log PartitionLog, partitions int, of func(chunk.Session) int) Feed {
	return byPartition{log, partitions, of}
}

type byPartition struct {
	log        PartitionLog
	partitions int
	of         func(chunk.Session) int
}

func (f byPartition) Scope(s chunk.Session) Scope { return Scope{Partition: f.of(s)} }

func (f byPartition) AtStart() []Scope {
	scopes := make([]Scope, f.partitions)
	for n := range scopes {
		scopes[n].Partition = n
	}
	return scopes
}

func (f byPartition) Open(ctx context.Context, of Scope, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return f.log.Feed(ctx, of.Partition, after)
}
