package jscontrol

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// errRecreated reports an acknowledgement that was not sent: the stream of its command was deleted.
var errRecreated = errors.New("stream was recreated")

// incarnation is a stream with one history: until it is deleted, or restored from a backup.
type incarnation struct {
	epoch string
	ended atomic.Bool
}

// delivery is a message that is acknowledged only while its stream exists. Acknowledgements name a sequence. Without it:
//  1. a worker runs the command with sequence 1, and the stream is deleted and recreated,
//  2. a new command has sequence 1, and its worker starts it,
//  3. the first worker acknowledges its command: the server removes the new one, and it is lost if its worker crashes.
//
// A worker with all slots in use does not pull, and does not notice that the stream was recreated.
type delivery struct {
	jetstream.Msg

	of *incarnation
}

func (d delivery) DoubleAck(ctx context.Context) error {
	return d.ifPresent(func() error { return d.Msg.DoubleAck(ctx) })
}

func (d delivery) InProgress() error {
	return d.ifPresent(d.Msg.InProgress)
}

func (d delivery) NakWithDelay(delay time.Duration) error {
	return d.ifPresent(func() error { return d.Msg.NakWithDelay(delay) })
}

func (d delivery) TermWithReason(reason string) error {
	return d.ifPresent(func() error { return d.Msg.TermWithReason(reason) })
}

func (d delivery) ifPresent(send func() error) error {
	if d.of.ended.Load() {
		return errRecreated
	}
	return send()
}

// next returns the incarnation of a stream with an epoch. i is the one that was known before, nil for none.
func (i *incarnation) next(epoch string) *incarnation {
	if i != nil && i.epoch == epoch {
		return i
	}
	if i != nil {
		i.ended.Store(true)
	}
	return &incarnation{epoch: epoch}
}
