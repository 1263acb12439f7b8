package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/deadletters"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
)

func runProjector(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, "projector", args, func(ctx context.Context, b *backbone) error {
		ops, err := b.newOps(ctx)
		if err != nil {
			return err
		}
		ops.assemble(b, b.probes())
		return b.withStreams(ctx, b.project, ops.runUntil)
	})
}

// project folds every partition into the bucket of snapshots until ctx ends. When
// somebody deletes the bucket it is made again, and the log folded anew.
func (b *backbone) project(ctx context.Context) error {
	parts, err := b.newProjector()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.keepStreams(ctx) })
	group.Go(func() error { return b.sweep(ctx, parts.store) })
	if b.cfg.ArchiveAfter > 0 {
		compactor, err := b.compactor()
		if err != nil {
			return err
		}
		group.Go(func() error { return compactor.Run(ctx) })
	}
	for partition := range b.cfg.Partitions {
		group.Go(func() error {
			for {
				err := parts.run(ctx, partition)
				if !errors.Is(err, natssource.ErrNewBucket) {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// projectorParts are what the runners of all partitions share.
type projectorParts struct {
	b       *backbone
	store   *kvstore.Store
	log     natssource.Log
	box     *deadletters.Box
	runners *projector.Metrics
	sources *natssource.Metrics
}

func (b *backbone) newProjector() (*projectorParts, error) {
	reader, err := b.reader()
	if err != nil {
		return nil, err
	}
	p := &projectorParts{b: b, log: natssource.Log{Reader: reader}}
	if p.store, err = b.store(); err != nil {
		return nil, err
	}
	if p.box, err = deadletters.New(b.js, deadletters.Config{Layout: b.cfg.layout(), Metrics: b.metrics}); err != nil {
		return nil, err
	}
	if p.runners, err = projector.NewMetrics(b.metrics); err != nil {
		return nil, err
	}
	p.sources, err = natssource.NewMetrics(b.metrics)
	return p, err
}

// run projects one partition.
func (p *projectorParts) run(ctx context.Context, partition int) error {
	source, err := natssource.New(p.b.js, natssource.Config{
		Layout: p.b.cfg.layout(), Partition: partition, Foreign: p.bury, Metrics: p.sources, Log: p.b.log,
	})
	if err != nil {
		return err
	}
	runner, err := projector.NewRunner(source, p.store, p.log, projector.Config{
		SaveRecords: p.b.cfg.SaveRecords, SaveAfter: p.b.cfg.SaveAfter, Memory: p.b.cfg.ProjectorMemory,
		DeadLetter: p.box, Metrics: p.runners, Log: p.b.log,
	})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// bury keeps a message that is no record.
func (p *projectorParts) bury(ctx context.Context, f natssource.Foreign) error {
	return p.box.BuryForeign(ctx, f.Partition, deadletters.Origin{Subject: f.Subject, Seq: f.Seq, Stored: f.Stored}, f.Err)
}

// store is where snapshots are.
func (b *backbone) store() (*kvstore.Store, error) {
	return kvstore.New(b.js, kvstore.Config{Layout: b.cfg.layout()})
}

// snapshotReader reads snapshots fresh: the stored head and the tail of the log.
func (b *backbone) snapshotReader(reader *consumers.Reader) (*projector.Reader, error) {
	store, err := b.store()
	if err != nil {
		return nil, err
	}
	return projector.NewReader(store, natssource.Log{Reader: reader}), nil
}

// heads are what a writer asks when the log has forgotten a session.
func (b *backbone) heads(reader *consumers.Reader) (producers.Heads, error) {
	return b.snapshotReader(reader)
}
