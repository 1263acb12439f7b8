package main

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sseedge"
)

// pages are what the edge sees of a projector.Reader, and of the log's end.
type pages struct {
	reader *projector.Reader
	tip    func(ctx context.Context, s chunk.Session) (chunk.Tip, error)
}

func (b *backbone) pages(reader *consumers.Reader) (pages, error) {
	snapshots, err := b.snapshotReader(reader)
	layout := b.cfg.layout()
	return pages{reader: snapshots, tip: func(ctx context.Context, s chunk.Session) (chunk.Tip, error) {
		return reader.Tip(ctx, layout.Partition(s))
	}}, err
}

var _ interface {
	sseedge.Snapshots
	sseedge.Past
} = pages{}

// Snapshot is sseedge.Snapshots'.
func (p pages) Snapshot(ctx context.Context, s chunk.Session, w sseedge.Want) (sseedge.Snapshot, error) {
	if w.Messages > 0 {
		page, err := p.reader.Page(ctx, s, fold.Window{Before: w.Before, Limit: w.Messages, Partial: w.Partial})
		if err != nil {
			return sseedge.Snapshot{}, err
		}
		return asPage(page.Frontend(now())), nil
	}
	snap, err := p.reader.Snapshot(ctx, s)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	return asPage(snap.Frontend(w.Partial, now())), nil
}

// At is sseedge.Past's. Every session of a partition counts by the same sequences:
// one that is beyond the last record of this session may well have been written.
func (p pages) At(ctx context.Context, s chunk.Session, seq chunk.Seq, partial bool) (sseedge.Snapshot, error) {
	tip, err := p.tip(ctx, s)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	if seq > tip.Seq {
		return sseedge.Snapshot{}, &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedFuture, After: seq}
	}
	snap, err := p.reader.At(ctx, s, seq)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	return asPage(snap.Frontend(partial, now())), nil
}

// Checkpoint is sseedge.Past's.
func (p pages) Checkpoint(ctx context.Context, s chunk.Session, id string) (sseedge.Snapshot, error) {
	snap, err := p.reader.Checkpoint(ctx, s, id)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	return asPage(snap.Checkpoint(id, now())), nil
}

func now() int64 { return time.Now().UnixMilli() }

func asPage(page fold.FrontendSnapshot) sseedge.Snapshot {
	out := sseedge.Snapshot{
		Position: chunk.Position{Seq: page.StreamSequence, Ordinal: page.Ordinal},
		Status:   string(page.Status),
		Page:     page.AppendJSON(nil),
		Made:     page.Timestamp,
	}
	if page.Before != nil && *page.Before != "" {
		out.Before = page.Before
	}
	for _, message := range page.Messages {
		out.Messages = append(out.Messages, sseedge.Message{ID: message.ID, JSON: message.AppendJSON(nil)})
	}
	return out
}
