package main

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/shares"
	"github.com/tailrace/tailrace/projector"
)

func runProjector(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, natsauth.Projector, args, func(ctx context.Context, b *app) error {
		ops, err := b.newOps(ctx)
		if err != nil {
			return err
		}
		b.withProjector()
		ops.assemble(b)
		return b.withStreams(ctx, b.project, ops.runUntil)
	})
}

// project folds its share of the partitions into the snapshot bucket until ctx
// ends. If the bucket is deleted and created again, the log is refolded.
func (b *app) project(ctx context.Context) error {
	parts, err := b.newProjector()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.sweepSnapshots(ctx, parts.store) })
	group.Go(func() error { return b.sweepRuns(ctx, parts.store) })
	group.Go(func() error {
		b.countApprovals(ctx, parts.store)
		return nil
	})
	group.Go(func() error { return parts.share(ctx) })
	b.conditions.projector.Store(true)
	return group.Wait()
}

// projectorParts are the dependencies that the runners of all partitions share.
type projectorParts struct {
	b           *app
	store       *jssnapshots.Store
	log         *consumers.Reader
	deadLetters *retention.DeadLetters
	runners     *metrics.Projector
	sources     *metrics.Source
	shares      *metrics.Shares
	budget      *projector.Budget
}

func (b *app) newProjector() (*projectorParts, error) {
	reader, err := b.reader()
	if err != nil {
		return nil, err
	}
	p := &projectorParts{
		b: b, log: reader, runners: metrics.NewProjector(b.metrics), sources: metrics.NewSource(b.metrics), shares: metrics.NewShares(b.metrics),
	}
	if p.store, err = b.store(); err != nil {
		return nil, err
	}
	if p.deadLetters, err = retention.NewDeadLetters(b.js, retention.DeadLetterConfig{Layout: b.cfg.layout(), Observe: metrics.NewDeadLetters(b.metrics)}); err != nil {
		return nil, err
	}
	if p.budget, err = projector.NewBudget(0, int(b.cfg.Memory/4)); err != nil {
		return nil, err
	}
	metrics.RegisterBudget(b.metrics, p.budget)
	return p, nil
}

// share projects the partitions that belong to this process, as one of all
// projectors that have a lease.
func (p *projectorParts) share(ctx context.Context) error {
	replicas, err := jssnapshots.NewReplicas(p.b.js, jssnapshots.ReplicasConfig{Layout: p.b.cfg.layout(), Instance: instance()})
	if err != nil {
		return err
	}
	return shares.Run(ctx, shares.Config{
		Member: replicas.Name(), Members: replicas, Partitions: p.b.cfg.Partitions, Work: p.run,
		Interval: replicas.RenewInterval(), Lease: replicas.TTL(), Observe: p.shares, Log: p.b.log,
	})
}

// run projects one partition, again when its stream or the bucket was recreated.
func (p *projectorParts) run(ctx context.Context, partition int) error {
	for {
		err := p.runOnce(ctx, partition)
		if !errors.Is(err, jssnapshots.ErrBucketRecreated) && !errors.Is(err, jssnapshots.ErrStreamRecreated) {
			return err
		}
	}
}

func (p *projectorParts) runOnce(ctx context.Context, partition int) error {
	source, err := jssnapshots.NewSource(p.b.js, jssnapshots.SourceConfig{
		Layout: p.b.cfg.layout(), Partition: partition, OnMalformed: p.addMalformed, Observe: p.sources, Log: p.b.log,
	})
	if err != nil {
		return err
	}
	runner, err := projector.NewRunner(source, p.store, p.log, projector.Config{
		SaveAfter: p.b.saveAfter, Budget: p.budget, DeadLetter: p.deadLetters, Observe: p.runners, TracerProvider: p.b.tracer, Log: p.b.log,
	})
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// addMalformed stores a malformed message as a dead letter.
func (p *projectorParts) addMalformed(ctx context.Context, f jssnapshots.Malformed) error {
	return p.deadLetters.AddMalformed(ctx, f.Partition, retention.Origin{Subject: f.Subject, Seq: f.Seq, Stored: f.Stored}, f.Err)
}

// store returns the snapshot store.
func (b *app) store() (*jssnapshots.Store, error) {
	return jssnapshots.New(b.js, jssnapshots.Config{Layout: b.cfg.layout()})
}
