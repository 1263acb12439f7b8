package jsapi

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// PinnedGroup is the one priority group of a Pinned consumer.
const PinnedGroup = "tailrace"

// ErrOtherSettings reports a consumer of our name that is not one of ours: it
// would deliver something else, or not until it is acknowledged, or to several at
// the same time.
var ErrOtherSettings = errors.New("a consumer of this name has other settings")

// Pinned is a durable consumer that has each message until it is acknowledged,
// and that the server serves to one client at a time.
type Pinned struct {
	Name        string
	Description string
	Filter      string
	From        uint64        // first sequence; 0 is the beginning of the stream
	FromNow     bool          // or, without From, its present end
	Ahead       int           // messages that are not acknowledged, at most
	AckWait     time.Duration // until one of those comes again
	Takeover    time.Duration // silence of a client until another is served
	Metadata    map[string]string
}

// Config is how the consumer is made.
func (p Pinned) Config() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable:        p.Name,
		Description:    p.Description,
		FilterSubject:  p.Filter,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        p.AckWait,
		MaxDeliver:     -1,
		MaxAckPending:  p.Ahead,
		PriorityPolicy: jetstream.PriorityPolicyPinned,
		PriorityGroups: []string{PinnedGroup},
		PinnedTTL:      p.Takeover,
		Metadata:       p.Metadata,
	}
	switch {
	case p.From > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, p.From
	case p.FromNow:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	return cfg
}

// Check compares what matters for what we promise with a consumer that is there:
// the rest may have been tuned by hand. The error is ErrOtherSettings.
func (p Pinned) Check(have jetstream.ConsumerConfig) error {
	want := p.Config()
	switch {
	case have.FilterSubject != want.FilterSubject:
		return fmt.Errorf("%w: its filter is %q, want %q", ErrOtherSettings, have.FilterSubject, want.FilterSubject)
	case have.AckPolicy != want.AckPolicy:
		return fmt.Errorf("%w: its ack policy is %s, want %s", ErrOtherSettings, have.AckPolicy, want.AckPolicy)
	case have.PriorityPolicy != want.PriorityPolicy || !slices.Equal(have.PriorityGroups, want.PriorityGroups):
		return fmt.Errorf("%w: want the pinned priority group %q", ErrOtherSettings, PinnedGroup)
	case have.MaxDeliver > 0:
		return fmt.Errorf("%w: it gives up after %d deliveries", ErrOtherSettings, have.MaxDeliver)
	case have.DeliverSubject != "":
		return fmt.Errorf("%w: it is a push consumer", ErrOtherSettings)
	}
	return nil
}
