package jssnapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// pollInterval is how often a Source checks the bucket and the lag of the consumer, with two or three small requests.
const pollInterval = 3 * time.Second

// watch checks whether the bucket is still the same, and measures the lag. It ends with ctx, which it stops when the bucket was recreated.
func (s *Source) watch(ctx context.Context, stop context.CancelCauseFunc) {
	if s.cfg.Observe != nil {
		defer s.cfg.Observe.LagUnknown(s.cfg.Partition)
	}
	for {
		err := s.check(ctx)
		if errors.Is(err, ErrBucketRecreated) {
			stop(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Debug("projector consumer not checked", slog.String("stream", s.stream()), slog.Any("error", err))
		}
		if wait.Sleep(ctx, s.poll) != nil {
			return
		}
	}
}

func (s *Source) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollInterval)
	defer cancel()
	if err := s.checkBucket(ctx); err != nil {
		return err
	}
	return s.measure(ctx)
}

// measure reports the unacknowledged records. Every Source of a partition reports the same values, also one that waits for the partition.
func (s *Source) measure(ctx context.Context) error {
	if s.cfg.Observe == nil {
		return nil
	}
	c, err := s.js.Consumer(ctx, s.stream(), s.cfg.Name)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	behind := info.NumPending + uint64(max(0, info.NumAckPending))
	if behind == 0 {
		s.cfg.Observe.Lag(s.cfg.Partition, 0, 0)
		return nil
	}
	oldest, err := s.client.Next(ctx, s.stream(), names.Layout(s.cfg.Layout).AllFilter(s.cfg.Partition), info.AckFloor.Stream+1)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		s.cfg.Observe.Lag(s.cfg.Partition, 0, 0)
		return nil
	}
	if err != nil {
		return err
	}
	s.cfg.Observe.Lag(s.cfg.Partition, behind, max(0, time.Since(oldest.Stored)))
	return nil
}

// bucket returns the name of the bucket of the partition.
func (s *Source) bucket() string { return names.Layout(s.cfg.Layout).SnapshotsOf(s.cfg.Partition) }

// checkBucket returns ErrBucketRecreated if the bucket is not the one of the first call, or was restored from a backup since.
func (s *Source) checkBucket(ctx context.Context) error {
	state, err := s.client.State(ctx, "KV_"+s.bucket(), "")
	if err != nil {
		return fmt.Errorf("bucket %s: %w", s.bucket(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = cmp.Or(s.epoch, state.Epoch)
	if s.epoch != state.Epoch {
		return fmt.Errorf("%w: %s has epoch %s, before %s", ErrBucketRecreated, s.bucket(), state.Epoch, s.epoch)
	}
	return nil
}

// BucketInUse reports whether the projector of any partition saves to a bucket, which is that of partition 0, or to the one of its partition, or was the last one
// that did, according to its consumer.
func BucketInUse(ctx context.Context, js jetstream.JetStream, layout subjects.Layout, bucket string) (bool, error) {
	layout.SnapshotBucket = bucket
	for p := range layout.PartitionCount() {
		c, err := js.Consumer(ctx, layout.Stream(p), Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("consumer %s of %s: %w", Durable, layout.Stream(p), err)
		}
		if c.CachedInfo().Config.Metadata[bucketKey] == names.Layout(layout).SnapshotsOf(p) {
			return true, nil
		}
	}
	return false, nil
}
