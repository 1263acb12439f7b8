package natssource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/projector"
)

// Source is a projector.Source over one partition's stream.
type Source struct {
	js  jetstream.JetStream
	cfg Config

	foreign, attached atomic.Uint64

	// Of Run.
	known   bool      // the consumer was there, floor is its
	floor   chunk.Seq // everything up to here is acknowledged
	checked time.Time // when floor was last asked for
	pin     string    // of the last message, "" before the first
}

var _ projector.Source = (*Source)(nil)

// New makes a Source. It does not ask the server for anything. The error names
// the field of cfg that is wrong.
func New(js jetstream.JetStream, cfg Config) (*Source, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Source{js: js, cfg: cfg}, nil
}

// Foreign counts the messages that were no records.
func (s *Source) Foreign() uint64 { return s.foreign.Load() }

// Attached counts how often the Source took up its consumer: 1 when all is well.
func (s *Source) Attached() uint64 { return s.attached.Load() }

// ErrOtherSettings reports a consumer of our name that is not one of ours: it
// would deliver something else, or not wait for acknowledgements.
var ErrOtherSettings = errors.New("a consumer of this name has other settings")

// priorityGroup is the one group that the consumer has.
const priorityGroup = "tailrace"

// Run implements projector.Source. It returns when ctx ends, when take fails, or
// with ErrOtherSettings. It is called once.
func (s *Source) Run(ctx context.Context, take func(context.Context, []projector.Delivery) error) error {
	defer s.release(ctx)
	for failures := 0; ; failures++ {
		begun := time.Now()
		err := s.attach(ctx, take)
		var refused *takeError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return refused.cause
		case errors.Is(err, ErrOtherSettings):
			return err
		}
		if time.Since(begun) > time.Minute {
			failures = 0
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the projector's source is interrupted; attaching again",
			slog.String("stream", s.stream()), slog.Any("reason", err))
		if err := sleep(ctx, min(5*time.Second, 50*time.Millisecond<<min(failures, 10))); err != nil {
			return err
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
		jetstream.PullPriorityGroup(priorityGroup),
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
		if err := s.hand(ctx, batch, take); err != nil {
			return err
		}
		s.checkFloor(ctx, consumer)
	}
}

// hand gives the records of a batch to take.
func (s *Source) hand(ctx context.Context, batch []jetstream.Msg, take func(context.Context, []projector.Delivery) error) error {
	s.pin = batch[len(batch)-1].Headers().Get("Nats-Pin-Id")
	deliveries := make([]projector.Delivery, 0, len(batch))
	for _, m := range batch {
		rec, seq, err := s.record(m)
		if err == nil {
			deliveries = append(deliveries, projector.Delivery{Record: rec, Acker: m})
			continue
		}
		s.foreign.Add(1)
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "a message is no record and is passed",
			slog.String("subject", m.Subject()), slog.Uint64("sequence", uint64(seq)), slog.Any("error", err))
		if s.cfg.OnForeign != nil {
			s.cfg.OnForeign(m.Subject(), seq, err)
		}
		if err := m.Ack(); err != nil {
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

func (s *Source) record(m jetstream.Msg) (chunk.Record, chunk.Seq, error) {
	meta, err := m.Metadata()
	if err != nil {
		return chunk.Record{}, 0, err
	}
	seq := chunk.Seq(meta.Sequence.Stream)
	id, err := s.cfg.Layout.Parse(m.Subject())
	if err != nil {
		return chunk.Record{}, seq, err
	}
	rec, err := codec.Decode(id, seq, meta.Timestamp, m.Headers(), m.Data())
	return rec, seq, err
}

// consumer finds the durable consumer, or makes it. One that was deleted is made
// again at the last known floor: at the end would lose records, at the beginning
// would cost everything once more.
func (s *Source) consumer(ctx context.Context) (jetstream.Consumer, error) {
	c, err := s.js.Consumer(ctx, s.stream(), s.cfg.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = s.js.CreateConsumer(ctx, s.stream(), s.config())
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", s.cfg.Name, s.stream(), err)
	}
	if err := s.check(c.CachedInfo().Config); err != nil {
		return nil, err
	}
	s.note(c.CachedInfo())
	return c, nil
}

func (s *Source) config() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable:        s.cfg.Name,
		Description:    "tailrace projector",
		FilterSubject:  s.cfg.Layout.AllFilter(s.cfg.Partition),
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        s.cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  s.cfg.Unacknowledged,
		PriorityPolicy: jetstream.PriorityPolicyPinned,
		PriorityGroups: []string{priorityGroup},
		PinnedTTL:      s.cfg.Takeover,
	}
	if s.known && s.floor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, uint64(s.floor)+1
	}
	return cfg
}

// check compares what matters for the promises; the rest may have been tuned by
// hand.
func (s *Source) check(have jetstream.ConsumerConfig) error {
	want := s.config()
	switch {
	case have.AckPolicy != want.AckPolicy:
		return fmt.Errorf("%s of %s: %w: acknowledgements", s.cfg.Name, s.stream(), ErrOtherSettings)
	case have.FilterSubject != want.FilterSubject && have.FilterSubject != "":
		return fmt.Errorf("%s of %s: %w: it is of %s", s.cfg.Name, s.stream(), ErrOtherSettings, have.FilterSubject)
	case have.PriorityPolicy != want.PriorityPolicy || len(have.PriorityGroups) != 1 || have.PriorityGroups[0] != priorityGroup:
		return fmt.Errorf("%s of %s: %w: priority group", s.cfg.Name, s.stream(), ErrOtherSettings)
	case have.MaxDeliver > 0:
		return fmt.Errorf("%s of %s: %w: it gives up after %d deliveries", s.cfg.Name, s.stream(), ErrOtherSettings, have.MaxDeliver)
	}
	return nil
}

func (s *Source) note(info *jetstream.ConsumerInfo) {
	s.known, s.floor, s.checked = true, chunk.Seq(info.AckFloor.Stream), time.Now()
}

// checkFloor asks now and then how far everything is acknowledged, for the case
// that the consumer is deleted.
func (s *Source) checkFloor(ctx context.Context, c jetstream.Consumer) {
	if time.Since(s.checked) < 30*time.Second {
		return
	}
	s.checked = time.Now()
	if info, err := c.Info(ctx); err == nil {
		s.note(info)
	}
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
		if group.Group == priorityGroup && group.PinnedClientID == s.pin {
			err = stream.UnpinConsumer(ctx, s.cfg.Name, priorityGroup)
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
