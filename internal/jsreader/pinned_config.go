package jsreader

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// PinnedGroup is the only priority group of the consumer of a Pinned.
const PinnedGroup = "tailrace"

// ErrConfigMismatch reports a consumer of that name with other settings: it would deliver other messages, would not redeliver unacknowledged messages, or would
// serve several clients at the same time.
var ErrConfigMismatch = errors.New("a consumer of this name has other settings")

// consumerConfig returns the configuration with which the consumer is created, at the last known position.
func (p *Pinned) consumerConfig() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable:        p.cfg.Name,
		Description:    p.cfg.Description,
		FilterSubject:  p.cfg.Filter,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        p.cfg.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  p.cfg.Ahead,
		PriorityPolicy: jetstream.PriorityPolicyPinned,
		PriorityGroups: []string{PinnedGroup},
		PinnedTTL:      p.cfg.TakeoverTimeout,
		Metadata:       p.cfg.Metadata,
	}
	switch acked := p.acks.acknowledged(); {
	case acked > 0 || p.last.seq > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, acked+1
	case p.cfg.FromLatest:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	return cfg
}

// checkConfig compares the settings that the guarantees depend on; an operator may have tuned the others. The error is ErrConfigMismatch.
func (p *Pinned) checkConfig(have jetstream.ConsumerConfig) error {
	want := p.consumerConfig()
	switch {
	case have.FilterSubject != want.FilterSubject:
		return fmt.Errorf("%w: filter %q, want %q", ErrConfigMismatch, have.FilterSubject, want.FilterSubject)
	case have.AckPolicy != want.AckPolicy:
		return fmt.Errorf("%w: ack policy %s, want %s", ErrConfigMismatch, have.AckPolicy, want.AckPolicy)
	case have.PriorityPolicy != want.PriorityPolicy || !slices.Equal(have.PriorityGroups, want.PriorityGroups):
		return fmt.Errorf("%w: want the pinned priority group %q", ErrConfigMismatch, PinnedGroup)
	case have.MaxDeliver > 0:
		return fmt.Errorf("%w: at most %d deliveries, want no limit", ErrConfigMismatch, have.MaxDeliver)
	case have.DeliverSubject != "":
		return fmt.Errorf("%w: push consumer, want pull", ErrConfigMismatch)
	}
	return nil
}
