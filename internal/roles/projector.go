package roles

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/shares"
)

// Project folds its share of the partitions into the snapshot bucket until ctx ends, and calls started when it has begun. If the bucket is deleted and created again, the log is refolded.
func (p *Process) Project(ctx context.Context, started func()) error {
	reader, store, err := p.NewReaders()
	if err != nil {
		return err
	}
	deadLetters, err := retention.NewDeadLetters(p.JS, retention.DeadLetterConfig{Layout: p.Layout, Observe: metrics.RegisterDeadLetters(p.Metrics)})
	if err != nil {
		return err
	}
	budget, err := projector.NewBudget(0, int(p.Memory/4))
	if err != nil {
		return err
	}
	metrics.RegisterBudget(p.Metrics, budget)
	parts := &projectorParts{p, store, reader, deadLetters, metrics.NewSource(p.Metrics), projector.Config{
		SaveAfter: p.SaveAfter, Budget: budget, DeadLetter: deadLetters, Observe: metrics.NewProjector(p.Metrics), TracerProvider: p.Tracer, Log: p.Log,
	}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.sweepSnapshots(ctx, store) })
	group.Go(func() error { return p.sweepRuns(ctx, store) })
	group.Go(func() error {
		p.countApprovals(ctx, store)
		return nil
	})
	group.Go(func() error { return parts.share(ctx) })
	started()
	return group.Wait()
}

// projectorParts are the dependencies that the runners of all partitions share.
type projectorParts struct {
	*Process

	store       *jssnapshots.Store
	log         *consumers.Reader
	deadLetters *retention.DeadLetters
	sources     *metrics.Source
	runner      projector.Config
}

// share projects the partitions that belong to this process, as one of all projectors that have a lease.
func (p *projectorParts) share(ctx context.Context) error {
	replicas, err := jssnapshots.NewReplicas(p.JS, jssnapshots.ReplicasConfig{Layout: p.Layout, Instance: Instance()})
	if err != nil {
		return err
	}
	return shares.Run(ctx, shares.Config{
		Member: replicas.Name(), Members: replicas, Partitions: p.Layout.PartitionCount(), Work: p.run,
		Interval: replicas.RenewInterval(), Lease: replicas.TTL(), Observe: metrics.NewShares(p.Metrics), Log: p.Log,
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
	source, err := jssnapshots.NewSource(p.JS, jssnapshots.SourceConfig{
		Layout: p.Layout, Partition: partition, OnMalformed: p.addMalformed, Observe: p.sources, Log: p.Log,
	})
	if err != nil {
		return err
	}
	runner, err := projector.NewRunner(source, p.store, p.log, p.runner)
	if err != nil {
		return err
	}
	return runner.Run(ctx)
}

// addMalformed stores a malformed message as a dead letter.
func (p *projectorParts) addMalformed(ctx context.Context, f jssnapshots.Malformed) error {
	return p.deadLetters.AddMalformed(ctx, f.Partition, retention.Origin{Subject: f.Subject, Seq: f.Seq, Stored: f.Stored}, f.Err)
}
