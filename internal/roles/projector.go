package roles

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/metrics"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/shares"
	"github.com/tailrace/tailrace/projector"
)

// Project folds its share of the partitions into the snapshot bucket until ctx ends, and calls started when it has begun. If the bucket is deleted and created
// again, the log is refolded.
func (p *Process) Project(ctx context.Context, started func()) error {
	parts, err := p.newProjector()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.sweepSnapshots(ctx, parts.store) })
	group.Go(func() error { return p.sweepRuns(ctx, parts.store) })
	group.Go(func() error {
		p.countApprovals(ctx, parts.store)
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
	runners     *metrics.Projector
	sources     *metrics.Source
	shares      *metrics.Shares
	budget      *projector.Budget
}

func (p *Process) newProjector() (*projectorParts, error) {
	reader, err := p.NewReader()
	if err != nil {
		return nil, err
	}
	parts := &projectorParts{
		Process: p, log: reader, runners: metrics.NewProjector(p.Metrics), sources: metrics.NewSource(p.Metrics), shares: metrics.NewShares(p.Metrics),
	}
	if parts.store, err = p.NewStore(); err != nil {
		return nil, err
	}
	if parts.deadLetters, err = retention.NewDeadLetters(p.JS, retention.DeadLetterConfig{Layout: p.Layout, Observe: metrics.NewDeadLetters(p.Metrics)}); err != nil {
		return nil, err
	}
	if parts.budget, err = projector.NewBudget(0, int(p.Memory/4)); err != nil {
		return nil, err
	}
	metrics.RegisterBudget(p.Metrics, parts.budget)
	return parts, nil
}

// share projects the partitions that belong to this process, as one of all
// projectors that have a lease.
func (p *projectorParts) share(ctx context.Context) error {
	replicas, err := jssnapshots.NewReplicas(p.JS, jssnapshots.ReplicasConfig{Layout: p.Layout, Instance: Instance()})
	if err != nil {
		return err
	}
	return shares.Run(ctx, shares.Config{
		Member: replicas.Name(), Members: replicas, Partitions: p.Layout.PartitionCount(), Work: p.run,
		Interval: replicas.RenewInterval(), Lease: replicas.TTL(), Observe: p.shares, Log: p.Log,
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
	runner, err := projector.NewRunner(source, p.store, p.log, projector.Config{
		SaveAfter: p.SaveAfter, Budget: p.budget, DeadLetter: p.deadLetters, Observe: p.runners, TracerProvider: p.Tracer, Log: p.Log,
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
