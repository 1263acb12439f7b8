package jsapi

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What was tuned by hand is left alone; what breaks a promise is refused.
func TestPinnedCheck(t *testing.T) {
	p := Pinned{Name: "x", Filter: "a.>", Ahead: 10, AckWait: time.Second, Takeover: time.Second}
	for name, c := range map[string]struct {
		change  func(*jetstream.ConsumerConfig)
		refused bool
	}{
		"as it was made":  {func(*jetstream.ConsumerConfig) {}, false},
		"more ahead":      {func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1000 }, false},
		"another start":   {func(c *jetstream.ConsumerConfig) { c.OptStartSeq = 7 }, false},
		"another filter":  {func(c *jetstream.ConsumerConfig) { c.FilterSubject = "a.b" }, true},
		"no acks":         {func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy }, true},
		"several clients": {func(c *jetstream.ConsumerConfig) { c.PriorityPolicy = jetstream.PriorityPolicyNone }, true},
		"another group":   {func(c *jetstream.ConsumerConfig) { c.PriorityGroups = []string{"x"} }, true},
		"it gives up":     {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 }, true},
		"it pushes":       {func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "x" }, true},
	} {
		have := p.Config()
		c.change(&have)
		if err := p.Check(have); errors.Is(err, ErrOtherSettings) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
