package hub

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
)

// Log is the history that a Hub reads when memory does not hold it. All methods
// may be called at once from many goroutines.
//
// An iterator ends without error when everything asked for was yielded, else
// with one error, last: a *chunk.TruncatedError when the log cannot give what
// lies after the position (then nothing was skipped before it), anything else
// when the log cannot be asked at present. Breaking off an iterator releases
// what it holds. Nobody changes the Data of a record.
type Log interface {
	// Replay yields the records of s after the position, through the sequence
	// through, inclusive. A position with an ordinal need not be that of a
	// record: Seq says where to look, Ordinal what was seen last, and the first
	// record is the next ordinal or one behind a hole that a truncated record
	// explains. The zero position is before the first record. A replica that
	// lags behind through is waited for, or an error.
	Replay(ctx context.Context, s chunk.Session, after chunk.Position, through chunk.Seq) iter.Seq2[chunk.Record, error]

	// ReplayTree yields the records of root and of all its sub-agents by
	// sequence, in the same way. after is 0 or the sequence of a record of the
	// tree.
	ReplayTree(ctx context.Context, root chunk.Session, after, through chunk.Seq) iter.Seq2[chunk.Record, error]

	// Verify turns a sequence that a client claims to have seen into the
	// position of a record of s (or, in the scope of a tree, of any session
	// under the same root), or says with a *chunk.TruncatedError why it is
	// none. The leader is asked before such a verdict.
	Verify(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Seq) (chunk.Position, error)

	// Last is the last record of s as the leader knows it, or
	// chunk.ErrUnknownSession.
	Last(ctx context.Context, s chunk.Session) (chunk.Record, error)
}

// Feed is what happens now: every message of a partition, in stream order. The
// Hub opens one iterator per partition and keeps it open.
type Feed interface {
	// Tip is the end of the partition's stream, as the leader knows it.
	Tip(ctx context.Context, partition int) (chunk.Tip, error)

	// Feed yields every message of the partition after the sequence, and goes
	// on; it ends only with an error, or with ctx. Lost connections that it can
	// bridge without leaving anything out it bridges by itself. It must not
	// cross a place where it left something out, or a stream that was made
	// again: there it ends with a *chunk.TruncatedError (expired, future,
	// recreated), and the Hub starts anew from the tip.
	Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[Message, error]
}

// Message is a message of the feed before anybody has looked inside. The Hub
// asks for the session, which the subject alone tells, and for the record only
// when that session is watched: on a busy stream nearly all messages are nobody's.
// A Message is good until the next one is taken; the Record is for keeps.
type Message interface {
	Seq() chunk.Seq
	Session() chunk.Session // the zero Session when the subject is none of ours

	// Record reads envelope and body. An error means that this is no record at
	// all; it has no ordinal, so skipping it hides nothing.
	Record() (chunk.Record, error)
}
