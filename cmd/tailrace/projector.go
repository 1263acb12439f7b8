package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/sseedge"
)

func runProjector(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, "projector", args, func(ctx context.Context, b *backbone) error {
		return b.withStreams(ctx, b.project)
	})
}

// project folds every partition into the bucket of snapshots until ctx ends.
func (b *backbone) project(ctx context.Context) error {
	reader, err := b.reader()
	if err != nil {
		return err
	}
	store, err := kvstore.New(b.js, kvstore.Config{Layout: b.cfg.layout()})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for partition := range b.cfg.Partitions {
		source, err := natssource.New(b.js, natssource.Config{Layout: b.cfg.layout(), Partition: partition, Log: b.log})
		if err != nil {
			return err
		}
		runner, err := projector.NewRunner(source, store, natssource.Log{Reader: reader}, projector.Config{DeadLetter: deadLetters{b}, Log: b.log})
		if err != nil {
			return err
		}
		group.Go(func() error { return runner.Run(ctx) })
	}
	return group.Wait()
}

// deadLetters puts records that cannot be folded into words. They stay in the
// log, and the snapshot has a mark.
type deadLetters struct{ b *backbone }

func (d deadLetters) Bury(_ context.Context, rec chunk.Record, reason string) error {
	d.b.log.Error("record cannot be folded", "session", rec.Session.String(), "seq", uint64(rec.Seq), "type", string(rec.Type), "reason", reason)
	return nil
}

// snapshotReader reads snapshots fresh: the stored head and the tail of the log.
func (b *backbone) snapshotReader(reader *consumers.Reader) (*projector.Reader, error) {
	store, err := kvstore.New(b.js, kvstore.Config{Layout: b.cfg.layout()})
	if err != nil {
		return nil, err
	}
	return projector.NewReader(store, natssource.Log{Reader: reader}), nil
}

// heads are what a writer asks when the log has forgotten a session.
func (b *backbone) heads(reader *consumers.Reader) (producers.Heads, error) {
	return b.snapshotReader(reader)
}

// pages are what the edge sees of a projector.Reader.
type pages struct{ reader *projector.Reader }

func (b *backbone) snapshots(reader *consumers.Reader) (sseedge.Snapshots, error) {
	snapshots, err := b.snapshotReader(reader)
	return pages{snapshots}, err
}

// Snapshot is sseedge.Snapshots'.
func (p pages) Snapshot(ctx context.Context, s chunk.Session, partial bool) (sseedge.Snapshot, error) {
	snap, err := p.reader.Snapshot(ctx, s)
	if err != nil {
		return sseedge.Snapshot{}, err
	}
	page := snap.Frontend(partial, time.Now().UnixMilli())
	out := sseedge.Snapshot{
		Position: chunk.Position{Seq: page.StreamSequence, Ordinal: page.Ordinal},
		Status:   string(page.Status),
		Page:     page.AppendJSON(nil),
	}
	for _, message := range page.Messages {
		out.Messages = append(out.Messages, sseedge.Message{ID: message.ID, JSON: message.AppendJSON(nil)})
	}
	return out, nil
}
