package jsreader

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// A consumer that was just created has delivered nothing, and its ack floor is before its first message. See TestBucketRecreated of package jssnapshots for the
// server that does otherwise.
func TestStateOfADeletedConsumer(t *testing.T) {
	all := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	from := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 50}
	latest := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
	for _, tt := range []struct {
		name             string
		cfg              jetstream.ConsumerConfig
		first            uint64
		delivered, acked jetstream.SequenceInfo
		want             bool
	}{
		{"a new one", all, 1, jetstream.SequenceInfo{}, jetstream.SequenceInfo{}, false},
		{"of an empty stream", all, 0, jetstream.SequenceInfo{}, jetstream.SequenceInfo{}, false},
		{"after expiry", all, 100, jetstream.SequenceInfo{Stream: 99}, jetstream.SequenceInfo{Stream: 99}, false},
		{"with deliveries", all, 1, jetstream.SequenceInfo{Consumer: 220, Stream: 220}, jetstream.SequenceInfo{Consumer: 220, Stream: 220}, true},
		{"with the ack floor of a reset", all, 1, jetstream.SequenceInfo{Stream: 220}, jetstream.SequenceInfo{Stream: 220}, true},
		{"from a sequence", from, 1, jetstream.SequenceInfo{Stream: 49}, jetstream.SequenceInfo{Stream: 49}, false},
		{"from an expired sequence", from, 100, jetstream.SequenceInfo{Stream: 99}, jetstream.SequenceInfo{Stream: 99}, false},
		{"from a sequence, further", from, 1, jetstream.SequenceInfo{Stream: 220}, jetstream.SequenceInfo{Stream: 220}, true},
		{"from the end", latest, 1, jetstream.SequenceInfo{Stream: 220}, jetstream.SequenceInfo{Stream: 220}, false},
	} {
		p := &Pinned{first: tt.first}
		if got := p.hasOldState(&jetstream.ConsumerInfo{Config: tt.cfg, Delivered: tt.delivered, AckFloor: tt.acked}); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
