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
	// sequence of a record of the tree. If a replica has not reached Through, Replay
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
}

// Feed delivers live messages: every message of a partition, in stream order. The
// Hub opens one iterator per partition and keeps it open while there are clients.
type Feed interface {
	// Tip returns the end of the partition's stream, as the leader knows it.
	Tip(ctx context.Context, partition int) (chunk.Tip, error)

	// Feed yields every message of the partition after the sequence, then live
	// messages; it ends only with an error or with ctx. It reconnects by itself as
	// long as it misses no message. If it has missed messages, or the stream was
	// recreated, it must end with a *chunk.TruncatedError (expired, future,
	// recreated); the Hub then restarts at the tip.
	//
	// The Hub parses a message only if its session is watched: on a busy stream nearly
	// all messages belong to sessions without clients. A message that cannot be parsed
	// has no ordinal, so skipping it hides no record.
	Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error]
}

// RootFeed delivers the live messages of single roots.
type RootFeed interface {
	// FeedRoot is like Feed.Feed, for the messages of a root and its sub-agents. If a message is
	// missing and a later one was yielded, it ends with a *chunk.TruncatedError (gap): the clients
	// of the root must load its snapshot again.
	FeedRoot(ctx context.Context, root chunk.Session, after chunk.Seq) iter.Seq2[codec.Stored, error]
}
