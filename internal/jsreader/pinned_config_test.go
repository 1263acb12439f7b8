package jsreader

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// checkConfig accepts what an operator may tune, and rejects what breaks a guarantee.
func TestPinnedCheck(t *testing.T) {
	p := &Pinned{cfg: PinnedConfig{Name: "x", Filter: "a.>", Ahead: 10, AckWait: time.Second, TakeoverTimeout: time.Second}}
	for name, c := range map[string]struct {
		change  func(*jetstream.ConsumerConfig)
		refused bool
	}{
		"unchanged":            {func(*jetstream.ConsumerConfig) {}, false},
		"larger MaxAckPending": {func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1000 }, false},
		"other start":          {func(c *jetstream.ConsumerConfig) { c.OptStartSeq = 7 }, false},
		"other filter":         {func(c *jetstream.ConsumerConfig) { c.FilterSubject = "a.b" }, true},
		"no acks":              {func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }, true},
		"several clients":      {func(c *jetstream.ConsumerConfig) { c.PriorityPolicy = jetstream.PriorityPolicyNone }, true},
		"other group":          {func(c *jetstream.ConsumerConfig) { c.PriorityGroups = []string{"x"} }, true},
		"limited deliveries":   {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 }, true},
		"push consumer":        {func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "x" }, true},
	} {
		have := p.consumerConfig()
		c.change(&have)
		if err := p.checkConfig(have); errors.Is(err, ErrConfigMismatch) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
