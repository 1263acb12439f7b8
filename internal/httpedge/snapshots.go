package httpedge

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/projector/fold"
)

// Snapshots returns the snapshots with which pages start; projector.Reader implements it. It may be called concurrently.
type Snapshots interface {
	// Snapshot returns the fold of s up to the end of its log at the time of the call, also if the projector lags. The error is chunk.ErrUnknownSession if
	// neither the log nor the store has the session.
	Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error)

	// MessagePage is Snapshot with only the selected messages; its cost should not depend on the others. The error may also be chunk.ErrUnknownMessage, if
	// there is no message with the id Before.
	MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error)

	// SnapshotAt returns what Snapshot returned when the log ended at a sequence, which the log has reached. The errors, in addition to those of Snapshot: a
	// *chunk.TruncatedError if the sequence has expired. A call may take up to Config.HistoryTimeout, and there is one at a time for a session.
	SnapshotAt(ctx context.Context, s chunk.Session, seq chunk.Seq) (fold.Snapshot, error)

	// SnapshotAtCheckpoint returns everything up to the record of a checkpoint. The errors, in addition to those of SnapshotAt: chunk.ErrUnknownCheckpoint.
	SnapshotAtCheckpoint(ctx context.Context, s chunk.Session, id string) (fold.Snapshot, error)

	// OwnedByOther and Value are those of a projector.Store.
	OwnedByOther(ctx context.Context, s chunk.Session, subject string) (bool, error)
	Value(ctx context.Context, s chunk.Session, key string) (data []byte, mediaType string, err error)
}

// read returns the present state as a browser loads it, with all messages if q has no Limit.
func (e *Edge) read(ctx context.Context, s chunk.Session, q fold.PageQuery) (aisdk.FrontendSnapshot, error) {
	if q.Limit > 0 {
		page, err := e.snapshots.MessagePage(ctx, s, q)
		if err != nil {
			return aisdk.FrontendSnapshot{}, err
		}
		return aisdk.Page(page, now()), nil
	}
	snap, err := e.readWhole(ctx, s, q.Branch)
	if err != nil {
		return aisdk.FrontendSnapshot{}, err
	}
	return aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: q.Partial, Timestamp: now()}), nil
}

// readWhole returns the present state with all messages, on the branch of a message, or "" for the latest one.
func (e *Edge) readWhole(ctx context.Context, s chunk.Session, branch string) (fold.Snapshot, error) {
	snap, err := e.snapshots.Snapshot(ctx, s)
	if err != nil || branch == "" {
		return snap, err
	}
	return snap.OnBranch(branch)
}

// readAt returns an earlier state as a browser loads it. All sessions of a partition share its sequences, so a sequence after the last record of this session
// may exist.
func (e *Edge) readAt(ctx context.Context, s chunk.Session, seq chunk.Seq, partial bool) (aisdk.FrontendSnapshot, error) {
	tip, err := e.hub.Tip(ctx, s)
	if err != nil {
		return aisdk.FrontendSnapshot{}, err
	}
	if seq > tip.Seq {
		return aisdk.FrontendSnapshot{}, &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedFuture, After: seq}
	}
	snap, err := e.snapshots.SnapshotAt(ctx, s, seq)
	if err != nil {
		return aisdk.FrontendSnapshot{}, err
	}
	return aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: partial, Timestamp: now()}), nil
}

// readCheckpoint returns the content of a checkpoint as a browser loads it.
func (e *Edge) readCheckpoint(ctx context.Context, s chunk.Session, id string) (aisdk.FrontendSnapshot, error) {
	snap, err := e.snapshots.SnapshotAtCheckpoint(ctx, s, id)
	if err != nil {
		return aisdk.FrontendSnapshot{}, err
	}
	return aisdk.Snapshot(snap, aisdk.SnapshotOptions{Checkpoint: &id, Timestamp: now()}), nil
}

func now() int64 { return time.Now().UnixMilli() }

// position returns the exclusive cursor after which a stream continues. Its Ordinal is 0 if it is not known.
func position(snap aisdk.FrontendSnapshot) chunk.Position {
	return chunk.Position{Seq: snap.StreamSequence, Ordinal: snap.Ordinal}
}

// over reports whether no record follows until a new run is started.
func over(snap aisdk.FrontendSnapshot) bool {
	return snap.Status == fold.Ended || snap.Status == fold.Failed
}
