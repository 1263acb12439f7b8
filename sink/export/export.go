package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/wait"
)

// Export delivers the rows of a log.
type Export struct {
	cfg      Config
	reader   *consumers.Reader
	trees    *consumers.Reader // reads the earlier records of trees, whose malformed messages the other one has reported
	firehose *consumers.Firehose
}

// ackWait is the time after which the server repeats a record that is not acknowledged. The firehose drops these repetitions; another process that takes over
// gets the records without waiting for it.
const ackWait = 10 * time.Minute

// New returns an Export. It does not call the server.
func New(js jetstream.JetStream, cfg Config) (*Export, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	x := &Export{cfg: cfg}
	var err error
	if x.reader, err = consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log}); err != nil {
		return nil, err
	}
	if x.trees, err = consumers.New(js, consumers.Config{Layout: cfg.Layout, Log: cfg.Log, OnMalformed: func(consumers.Malformed) {}}); err != nil {
		return nil, err
	}
	x.firehose, err = x.reader.Firehose(consumers.FirehoseConfig{
		Name: "sink-" + cfg.Name, Tenant: cfg.Tenant, FromLatest: cfg.FromNow, NoFollow: cfg.NoFollow, Unconfirmed: MaxUnconfirmed, AckWait: ackWait,
	})
	return x, err
}

// The delay between two attempts to read the log.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 30 * time.Second
)

// Run delivers until ctx ends, or with NoFollow until everything is delivered. A server or a receiver that fails is tried again. The error is nil, or that of a
// consumer with this name and other settings, such as another Tenant.
func (x *Export) Run(ctx context.Context) error {
	delays := wait.Backoff{First: minRetry, Max: maxRetry, Jitter: true}
	for failed := 1; ; failed++ {
		began := time.Now()
		err := x.read(ctx)
		switch {
		case ctx.Err() != nil, err == nil:
			return nil //nolint:nilerr // ctx has ended, or everything is delivered
		case errors.Is(err, jsreader.ErrConfigMismatch):
			return err
		}
		x.cfg.Log.Error("reading failed, trying again", slog.Any("error", err))
		if time.Since(began) > maxRetry {
			failed = 1
		}
		if err := wait.Sleep(ctx, delays.Delay(failed)); err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// read delivers from the positions of the server on.
func (x *Export) read(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	parts := make([]*partition, x.cfg.Layout.PartitionCount())
	for i := range parts {
		var err error
		if parts[i], err = x.newPartition(ctx, i); err != nil {
			return err
		}
	}
	memory, warn, lost := semaphore.NewWeighted(maxBytes), &wait.Throttle{}, &wait.Throttle{}
	delivering, stop := context.WithCancel(ctx)
	defer stop()
	lanes := make([]*lane, x.cfg.Lanes)
	for i := range lanes {
		l := &lane{cfg: &x.cfg, items: make(chan item, x.cfg.Batch), memory: memory, warn: warn, lost: lost}
		lanes[i] = l
		group.Go(func() error {
			err := l.run(delivering)
			if delivering.Err() != nil {
				err = nil // it has ended for that reason
			}
			return err
		})
	}
	group.Go(func() error {
		x.observeLag(delivering, parts)
		return nil
	})
	group.Go(func() error {
		defer stop()
		err := x.firehose.Run(ctx, func(ctx context.Context, rec chunk.Record) error {
			return parts[x.cfg.Layout.Partition(rec.Session)].handle(ctx, rec, lanes)
		})
		if err != nil {
			return fmt.Errorf("firehose: %w", err)
		}
		return nil
	})
	return group.Wait()
}
