package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/subjects"
)

// Turn is one thing that is to be done now and then. Its methods may be called
// concurrently.
type Turn struct {
	js      jetstream.JetStream
	api     *jsapi.API
	stream  string
	subject string
	every   time.Duration
}

// New makes a Turn of a name, which is a token, for a thing to be done once in a
// while. It does not ask the server for anything.
// The error is a *subjects.TokenError.
func New(js jetstream.JetStream, layout subjects.Layout, name string, every time.Duration) (*Turn, error) {
	key, err := subjects.TurnKey(name)
	bucket := layout.Snapshots()
	return &Turn{js: js, api: jsapi.New(js), stream: "KV_" + bucket, subject: "$KV." + bucket + "." + key, every: every}, err
}

// Do does the work, unless somebody has begun it less than nine tenths of the
// while ago: who began it last, and asks again after the while, is not too early.
// After an error of work it is anybody's turn at once. When a process dies at
// work, it is after the while. The error is that of work or of the server; nil
// too when it is not our turn.
func (t *Turn) Do(ctx context.Context, work func(context.Context) error) error {
	note, err := t.take(ctx)
	if err != nil || note == 0 {
		return err
	}
	if err = work(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, failed := t.api.Purge(ctx, t.stream, t.subject, note+1)
		err = errors.Join(err, failed)
	}
	return err
}

// take writes the note by compare-and-set with the one that is there, and gives
// its sequence; 0 when it is not our turn.
func (t *Turn) take(ctx context.Context) (uint64, error) {
	last, err := t.api.Last(ctx, t.stream, t.subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, fmt.Errorf("read %s: %w", t.subject, err)
	}
	if err == nil && time.Since(last.Time) < t.every*9/10 {
		return 0, nil
	}
	ack, err := t.js.Publish(ctx, t.api.Published(t.subject), nil, jetstream.WithExpectLastSequencePerSubject(last.Seq))
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && (api.ErrorCode == 10071 || api.ErrorCode == 10164) {
		return 0, nil // somebody else was faster, or is about to be
	}
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", t.subject, err)
	}
	return ack.Sequence, nil
}
