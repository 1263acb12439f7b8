package natssource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// lookEvery is how often a Source looks at the consumer and the bucket. A look is
// two or three small requests.
const lookEvery = 3 * time.Second

// watch looks now and then how far everything is acknowledged, for the case that
// the consumer is deleted, and whether the bucket is still the same. It ends with
// ctx, which it stops when it is not.
func (s *Source) watch(ctx context.Context, stop context.CancelCauseFunc) {
	defer s.cfg.Metrics.forget(s.cfg.Partition)
	for {
		err := s.look(ctx)
		if errors.Is(err, ErrNewBucket) {
			stop(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Debug("the projector's consumer could not be looked at", slog.String("stream", s.stream()), slog.Any("error", err))
		}
		if sleep(ctx, s.every) != nil {
			return
		}
	}
}

func (s *Source) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	if _, err := s.sameBucket(ctx); err != nil {
		return err
	}
	c, err := s.js.Consumer(ctx, s.stream(), s.cfg.Name)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	s.note(info)
	return errors.Join(s.adopt(ctx, info), s.measure(ctx, info))
}

// adopt has the consumer set back when nobody has the partition and somebody did:
//  1. the owner gets the last messages there are, and dies,
//  2. the server notices its silence, and waits for a message to give to another,
//  3. there is none before AckWait is over.
func (s *Source) adopt(ctx context.Context, info *jetstream.ConsumerInfo) error {
	if info.NumAckPending == 0 || len(info.PriorityGroups) == 0 || info.PriorityGroups[0].PinnedClientID != "" {
		return nil
	}
	_, err := s.js.ResetConsumer(ctx, s.stream(), s.cfg.Name)
	return err
}

// note remembers the floor. It does not sink: a consumer that was made again
// starts at 0, and is not yet where we wanted it.
func (s *Source) note(info *jetstream.ConsumerInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info.Config.Metadata[bucketKey] == s.bucket {
		s.floor = max(s.floor, chunk.Seq(info.AckFloor.Stream))
	}
}

// measure tells the metrics what is not acknowledged yet. Every Source of a
// partition tells the same, the one that stands by too.
func (s *Source) measure(ctx context.Context, info *jetstream.ConsumerInfo) error {
	if s.cfg.Metrics == nil {
		return nil
	}
	behind := info.NumPending + uint64(max(0, info.NumAckPending))
	if behind == 0 {
		s.cfg.Metrics.lag(s.cfg.Partition, 0, 0)
		return nil
	}
	stream, err := s.js.Stream(ctx, s.stream())
	if err != nil {
		return err
	}
	oldest, err := stream.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(s.cfg.Layout.AllFilter(s.cfg.Partition)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		s.cfg.Metrics.lag(s.cfg.Partition, 0, 0)
		return nil
	}
	if err != nil {
		return err
	}
	s.cfg.Metrics.lag(s.cfg.Partition, behind, max(0, time.Since(oldest.Time)))
	return nil
}

// sameBucket names the life of the bucket: when it was made. ErrNewBucket when
// that is not what it was.
func (s *Source) sameBucket(ctx context.Context) (string, error) {
	stream, err := s.js.Stream(ctx, "KV_"+s.cfg.Bucket)
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", s.cfg.Bucket, err)
	}
	life := s.cfg.Bucket + bucketOf + stream.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bucket == "" {
		s.bucket = life
	}
	if s.bucket != life {
		return "", fmt.Errorf("%w: it is %s, and was %s", ErrNewBucket, life, s.bucket)
	}
	return life, nil
}

// ofBucket is the consumer if its acknowledgements speak of this bucket. One of
// another is deleted: what it acknowledged is not here. One without a name is of
// a build that gave none, and is taken to be of this.
func (s *Source) ofBucket(ctx context.Context, c jetstream.Consumer, bucket string) (jetstream.Consumer, error) {
	cfg := c.CachedInfo().Config
	switch was := cfg.Metadata[bucketKey]; was {
	case bucket:
		return c, nil
	case "":
		if err := s.check(c); err != nil {
			return nil, err
		}
		cfg.Metadata = maps.Clone(cfg.Metadata)
		if cfg.Metadata == nil {
			cfg.Metadata = make(map[string]string)
		}
		cfg.Metadata[bucketKey] = bucket
		return s.js.UpdateConsumer(ctx, s.stream(), cfg)
	default:
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the bucket of snapshots was made anew; projecting the log from its start",
			slog.String("stream", s.stream()), slog.String("bucket", bucket), slog.String("was", was))
		if err := s.js.DeleteConsumer(ctx, s.stream(), s.cfg.Name); err != nil {
			return nil, err
		}
		return nil, jetstream.ErrConsumerNotFound
	}
}

// InUse reports whether a projector of any partition saves to a bucket, or was
// the last that saved there, by what its consumer says.
func InUse(ctx context.Context, js jetstream.JetStream, layout subjects.Layout, bucket string) (bool, error) {
	name := Config{Layout: layout}.withDefaults().Name
	for p := range layout.PartitionCount() {
		c, err := js.Consumer(ctx, layout.Stream(p), name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("consumer %s of %s: %w", name, layout.Stream(p), err)
		}
		if strings.HasPrefix(c.CachedInfo().Config.Metadata[bucketKey], bucket+bucketOf) {
			return true, nil
		}
	}
	return false, nil
}
