package jsreader

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// Watch tells a reader without a consumer whether a stream is still the one whose messages it has received. It belongs to one goroutine.
type Watch struct {
	client *jsclient.Client
	stream string
	last   position
}

// NewWatch returns a Watch of the stream that the first call of Check finds.
func NewWatch(c *jsclient.Client, stream string) *Watch { return &Watch{client: c, stream: stream} }

// Received records a message of the stream and when it was stored.
func (w *Watch) Received(seq uint64, stored time.Time) {
	if seq > w.last.seq {
		w.last.seq, w.last.stored = seq, stored
	}
}

// Check returns the state of the stream. The error is ErrRecreated, after which the next call accepts the present stream, or that of a request.
func (w *Watch) Check(ctx context.Context) (jsclient.State, error) {
	state, err := w.client.State(ctx, w.stream, "")
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && w.last.epoch != "":
		err = ErrRecreated
	case err != nil:
	case w.last.epoch == "":
		w.last.epoch = state.Epoch
	default:
		err = w.last.compare(ctx, w.client, w.stream, state)
	}
	if errors.Is(err, ErrRecreated) {
		w.last = position{}
	}
	return state, err
}
