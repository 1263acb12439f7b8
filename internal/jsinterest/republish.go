package jsinterest

import (
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/subjects"
)

// Republish returns the configuration with which the stream of a partition publishes each stored message again.
func Republish(l subjects.Layout, partition int) *jetstream.RePublish {
	source, destination := l.Live(partition)
	return &jetstream.RePublish{Source: source, Destination: destination}
}
