package jsreader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// PinnedConfig configures a Pinned.
type PinnedConfig struct {
	Stream      string
	Epoch       string // of the stream; empty accepts any
	Name        string // of the durable consumer; Pinned readers with the same name share the work
	Description string // of a consumer that is created
	Filter      string
	FromLatest  bool // a consumer that is created begins at the present end; otherwise at the start of the stream, or after After
	After       uint64

	// Metadata is the metadata of the consumer. If a consumer lacks a key or has another value, its position is not valid for this reader: the consumer is
	// deleted and created again, at the start of the stream.
	Metadata map[string]string

	Ahead           int           // deliveries without acknowledgement, at most
	Batch           int           // entries of one call of take, at most
	Request         int           // messages of one request, at most
	AckWait         time.Duration // until the server repeats a delivery without acknowledgement
	TakeoverTimeout time.Duration // without a request of the pinned client until the server serves another one

	// InOrderOnly ends Run with ErrConfigMismatch if the server is older than 2.14 and cannot reset a consumer. Otherwise, with such a server,
	// deliveries of the previous client are repeated after AckWait, between newer ones.
	InOrderOnly bool

	// Attach, if not nil, is called before each attempt to attach, with the timeout of one request. Its error ends Run.
	Attach func(ctx context.Context) error

	// OnWait, if not nil, is called when the server has served another client for two seconds while this one waited.
	OnWait func()

	// Wake, if not nil, makes Run call take without entries when it fires.
	Wake <-chan time.Time

	OpenTimeout time.Duration // of the first attempts to attach; 0 is for as long as the context lasts
	Heartbeat   time.Duration // see OrderedConfig
	WarnAfter   time.Duration // see OrderedConfig
	OnReset     func()        // see OrderedConfig
	Log         *slog.Logger  // nil disables logging
}

// PinnedGroup is the only priority group of the consumer of a Pinned.
const PinnedGroup = "tailrace"

// ErrConfigMismatch reports a consumer of that name with other settings: it would deliver other messages, would not redeliver unacknowledged messages, or would
// serve several clients at the same time.
var ErrConfigMismatch = errors.New("consumer has other settings")

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
	case p.cfg.After > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, p.cfg.After+1
	case p.cfg.FromLatest:
		cfg.DeliverPolicy = jetstream.DeliverNewPolicy
	}
	return cfg
}

// adjusted returns the settings of an older consumer with those of this client that it needs: the shorter takeover, and the larger number of unacknowledged
// deliveries. It reports false if nothing differs. Only the pinned client changes them, so that the others do not shorten the takeover of one that sends its
// requests less often.
func (p *Pinned) adjusted(have jetstream.ConsumerConfig) (jetstream.ConsumerConfig, bool) {
	want := have
	want.PinnedTTL, want.MaxAckPending = min(have.PinnedTTL, p.cfg.TakeoverTimeout), max(have.MaxAckPending, p.cfg.Ahead)
	if have.MaxAckPending <= 0 { // no limit
		want.MaxAckPending = have.MaxAckPending
	}
	return want, want.PinnedTTL != have.PinnedTTL || want.MaxAckPending != have.MaxAckPending
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
