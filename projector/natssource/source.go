package natssource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/projector"
)

// Source is a projector.Source over one partition's stream.
type Source struct {
	js    jetstream.JetStream
	cfg   Config
	every time.Duration // between two looks

	foreign, attached atomic.Uint64

	mu     sync.Mutex // guards floor and bucket
	floor  chunk.Seq  // everything up to here is acknowledged, as far as is known
	bucket string     // the life of the bucket, "" before it was asked for

	pin string // of Run: that of the last message, "" before the first
}

var _ projector.Source = (*Source)(nil)

// New makes a Source. It does not ask the server for anything. The error names
// the field of cfg that is wrong.
func New(js jetstream.JetStream, cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Source{js: js, cfg: cfg, every: lookEvery}, nil
}

// Foreign counts the messages that were no records.
func (s *Source) Foreign() uint64 { return s.foreign.Load() }

// Attached counts how often the Source took up its consumer: 1 when all is well.
func (s *Source) Attached() uint64 { return s.attached.Load() }

// ErrOtherSettings reports a consumer of our name that is not one of ours.
var ErrOtherSettings = jsapi.ErrOtherSettings

// ErrNewBucket reports that the bucket is not the one that the Runner has saved
// to: run a new Source with a new Runner, which begins at the start of the log.
var ErrNewBucket = errors.New("the bucket of snapshots was made anew")

const (
	// bucketKey holds, in the consumer, the life of the bucket that its
	// acknowledgements speak of: its name, bucketOf, and when it was made.
	bucketKey = "tailrace.bucket"
	bucketOf  = " of "

	// mostBurials is how often a message that is no record comes again because
	// nobody could be told of it.
	mostBurials = 5
)

// Run implements projector.Source. It returns when ctx ends, when take fails, or
// with ErrOtherSettings or ErrNewBucket. It is called once.
func (s *Source) Run(ctx context.Context, take func(context.Context, []projector.Delivery) error) error {
	defer s.release(ctx)
	ctx, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx, stop) })
	defer watching.Wait()
	defer stop(nil)
	for failures := 0; ; failures++ {
		begun := time.Now()
		err := s.attach(ctx, take)
		var refused *takeError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &refused):
			return refused.cause
		case errors.Is(err, ErrOtherSettings), errors.Is(err, ErrNewBucket):
			return err
		}
		if time.Since(begun) > time.Minute {
			failures = 0
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the projector's source is interrupted; attaching again",
			slog.String("stream", s.stream()), slog.Any("reason", err))
		if err := sleep(ctx, min(5*time.Second, 50*time.Millisecond<<min(failures, 10))); err != nil {
			return context.Cause(ctx)
		}
	}
}

func (s *Source) stream() string { return s.cfg.Layout.Stream(s.cfg.Partition) }

// takeError: the Runner wants no more.
type takeError struct{ cause error }

func (e *takeError) Error() string { return e.cause.Error() }

// attach takes up the consumer and hands over what it delivers until something
// breaks.
func (s *Source) attach(ctx context.Context, take func(context.Context, []projector.Delivery) error) error {
	consumer, err := s.consumer(ctx)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(
		jetstream.PullMaxMessages(2*s.cfg.Batch),
		jetstream.PullPriorityGroup(jsapi.PinnedGroup),
		// A request must end well before Takeover: the next one is the sign of
		// life that keeps the partition.
		jetstream.PullExpiry(s.cfg.Takeover/2),
		jetstream.PullHeartbeat(s.cfg.Takeover/6),
	)
	if err != nil {
		return err
	}
	defer messages.Stop()
	s.attached.Add(1)
	p := newPump(messages, s.cfg.Batch)
	defer p.stop()
	for {
		batch, err := p.batch(ctx, s.cfg.Batch)
		if err != nil {
			return err
		}
		if pin := batch[0].Headers().Get("Nats-Pin-Id"); pin != s.pin {
			s.pin = pin
			s.takeOver(ctx, consumer, batch[0])
		}
		if err := s.hand(ctx, batch, take); err != nil {
			return err
		}
	}
}

// takeOver makes the server send at once what the owner before us had and did
// not acknowledge. Without it that comes after AckWait, and a session that says
// nothing more waits for so long. A server before 2.14 cannot be asked.
func (s *Source) takeOver(ctx context.Context, consumer jetstream.Consumer, first jetstream.Msg) {
	meta, err := first.Metadata()
	if err != nil {
		return
	}
	info, err := consumer.Info(ctx)
	if err == nil && info.AckFloor.Stream+1 < meta.Sequence.Stream && info.NumAckPending > 0 {
		_, err = s.js.ResetConsumer(ctx, s.stream(), s.cfg.Name)
	}
	if err != nil {
		s.cfg.Log.Debug("what the last owner left comes later", slog.String("stream", s.stream()), slog.Any("error", err))
	}
}

// hand gives the records of a batch to take.
func (s *Source) hand(ctx context.Context, batch []jetstream.Msg, take func(context.Context, []projector.Delivery) error) error {
	deliveries := make([]projector.Delivery, 0, len(batch))
	for _, m := range batch {
		meta, err := m.Metadata()
		if err != nil {
			return err // not from a consumer
		}
		s.cfg.Metrics.delivered(meta)
		rec, err := s.record(m, meta)
		if err == nil {
			deliveries = append(deliveries, projector.Delivery{Record: rec, Acker: m})
			continue
		}
		if err := s.pass(ctx, m, meta, err); err != nil {
			return err
		}
	}
	if len(deliveries) == 0 {
		return nil
	}
	if err := take(ctx, deliveries); err != nil {
		return &takeError{err}
	}
	return nil
}

// pass reports a message that is no record and acknowledges it.
func (s *Source) pass(ctx context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata, why error) error {
	f := Foreign{Partition: s.cfg.Partition, Subject: m.Subject(), Seq: chunk.Seq(meta.Sequence.Stream), Stored: meta.Timestamp, Err: why}
	attrs := []slog.Attr{slog.String("subject", f.Subject), slog.Uint64("sequence", uint64(f.Seq)), slog.Any("error", why)}
	if s.cfg.Foreign != nil {
		err := s.cfg.Foreign(ctx, f)
		if err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "nobody could be told of a message that is no record", append(attrs, slog.Any("cause", err))...)
		}
		if err != nil && meta.NumDelivered < mostBurials {
			return nil // it comes again
		}
	}
	s.foreign.Add(1)
	s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a message is no record and is passed", attrs...)
	return m.Ack()
}

func (s *Source) record(m jetstream.Msg, meta *jetstream.MsgMetadata) (chunk.Record, error) {
	id, err := s.cfg.Layout.Parse(m.Subject())
	if err != nil {
		return chunk.Record{}, err
	}
	return codec.Decode(id, chunk.Seq(meta.Sequence.Stream), meta.Timestamp, m.Headers(), m.Data())
}

// consumer finds the durable consumer, or makes it. One that was deleted is made
// again at the last known floor: at the end would lose records, at the beginning
// would cost everything once more.
func (s *Source) consumer(ctx context.Context) (jetstream.Consumer, error) {
	bucket, err := s.sameBucket(ctx)
	if err != nil {
		return nil, err
	}
	c, err := s.js.Consumer(ctx, s.stream(), s.cfg.Name)
	if err == nil {
		c, err = s.ofBucket(ctx, c, bucket)
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = s.js.CreateConsumer(ctx, s.stream(), s.want().Config())
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", s.cfg.Name, s.stream(), err)
	}
	if err := s.check(c); err != nil {
		return nil, err
	}
	s.note(c.CachedInfo())
	return c, nil
}

func (s *Source) want() jsapi.Pinned {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := jsapi.Pinned{
		Name: s.cfg.Name, Description: "tailrace projector", Filter: s.cfg.Layout.AllFilter(s.cfg.Partition),
		Ahead: s.cfg.Unacknowledged, AckWait: s.cfg.AckWait, Takeover: s.cfg.Takeover,
		Metadata: map[string]string{bucketKey: s.bucket},
	}
	if s.floor > 0 {
		want.From = uint64(s.floor) + 1
	}
	return want
}

func (s *Source) check(c jetstream.Consumer) error {
	if err := s.want().Check(c.CachedInfo().Config); err != nil {
		return fmt.Errorf("%s of %s: %w", s.cfg.Name, s.stream(), err)
	}
	return nil
}

// release lets another Source have the partition at once.
func (s *Source) release(ctx context.Context) {
	if s.pin == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.stream())
	if err != nil {
		return // it will notice our silence
	}
	c, err := stream.Consumer(ctx, s.cfg.Name)
	if err != nil {
		return
	}
	for _, group := range c.CachedInfo().PriorityGroups {
		if group.Group == jsapi.PinnedGroup && group.PinnedClientID == s.pin {
			err = stream.UnpinConsumer(ctx, s.cfg.Name, jsapi.PinnedGroup)
		}
	}
	if err != nil {
		s.cfg.Log.Debug("the partition could not be released", slog.Any("error", err))
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
