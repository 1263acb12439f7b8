package main

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sseedge"
)

// snapshotAdapter adapts a projector.Reader and the end of the log to the edge.
type snapshotAdapter struct {
	reader *projector.Reader
	tip    func(ctx context.Context, s chunk.Session) (chunk.Tip, error)
}

func (b *app) snapshotAdapter(reader *consumers.Reader) (snapshotAdapter, error) {
	snapshots, err := b.snapshotReader(reader)
	layout := b.cfg.layout()
	return snapshotAdapter{reader: snapshots, tip: func(ctx context.Context, s chunk.Session) (chunk.Tip, error) {
		return reader.Tip(ctx, layout.Partition(s))
	}}, err
}

var _ interface {
	sseedge.Snapshots
	sseedge.History
} = snapshotAdapter{}

// Snapshot implements sseedge.Snapshots.
func (p snapshotAdapter) Snapshot(ctx context.Context, s chunk.Session, w sseedge.SnapshotQuery) (sseedge.Snapshot, error) {
	if w.Messages > 0 {
		page, err := p.reader.MessagePage(ctx, s, fold.PageQuery{Before: w.Before, Limit: w.Messages, Partial: w.Partial})
		if err != nil {
			return sseedge.Snapshot{}, err
		}
		return asPage(aisdk.Page(page, now())), nil
	}
	snap, err := p.reader.Snapshot(ctx, s)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	return asPage(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: w.Partial, Timestamp: now()})), nil
}

// SnapshotAt implements sseedge.History. All sessions of a partition share its sequences, so
// a sequence after the last record of this session may exist.
func (p snapshotAdapter) SnapshotAt(ctx context.Context, s chunk.Session, seq chunk.Seq, partial bool) (sseedge.Snapshot, error) {
	tip, err := p.tip(ctx, s)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	if seq > tip.Seq {
		return sseedge.Snapshot{}, &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedFuture, After: seq}
	}
	snap, err := p.reader.SnapshotAt(ctx, s, seq)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	return asPage(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: partial, Timestamp: now()})), nil
}

// SnapshotAtCheckpoint implements sseedge.History.
func (p snapshotAdapter) SnapshotAtCheckpoint(ctx context.Context, s chunk.Session, id string) (sseedge.Snapshot, error) {
	snap, err := p.reader.SnapshotAtCheckpoint(ctx, s, id)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	return asPage(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Checkpoint: &id, Timestamp: now()})), nil
}

func now() int64 { return time.Now().UnixMilli() }

func asPage(page aisdk.FrontendSnapshot) sseedge.Snapshot {
	out := sseedge.Snapshot{
		Position:    chunk.Position{Seq: page.StreamSequence, Ordinal: page.Ordinal},
		Status:      string(page.Status),
		JSON:        page.AppendJSON(nil),
		GeneratedAt: page.Timestamp,
	}
	if page.Before != nil && *page.Before != "" {
		out.Before = page.Before
	}
	for _, message := range page.Messages {
		out.Messages = append(out.Messages, sseedge.UIMessage{ID: message.ID, JSON: message.AppendJSON(nil)})
	}
	return out
}
