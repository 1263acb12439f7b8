package jsapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// ErrMoved reports a compare-and-set that was refused: the last message of the
// subject is another one than was expected.
var ErrMoved = errors.New("the subject has another last message")

// Put is a message that is to be stored once.
type Put struct {
	// Msg has a Nats-Msg-Id, by which the server knows a repetition.
	Msg    *nats.Msg
	Stream string

	// After, if not nil, is the sequence that the last message of the subject
	// must have, 0 for no message.
	After *uint64

	// Patience is how long to try while nothing is known.
	Patience time.Duration
}

const (
	attemptLimit = 2 * time.Second // one try, at least; see once
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = time.Second

	// contention is how long to wait when somebody else's write to the subject is
	// under way: about as long as that takes. The wait is spread, or all who
	// were refused together come together again.
	contention = 2 * time.Millisecond
)

// Codes of the server.
const (
	codeTooLarge  jetstream.ErrorCode = 10054 // over the stream's limit
	codeMoved     jetstream.ErrorCode = 10071 // wrong last sequence, a verdict
	codeRepeating jetstream.ErrorCode = 10158 // a message with this id is under way
	codeContended jetstream.ErrorCode = 10164 // some message of this subject is under way
)

// Put stores p.Msg, trying until there is a verdict, and returns its sequence. A
// try without an answer may have been stored; the message id makes the next one
// harmless.
//
// The errors are ErrMoved; chunk.ErrTooLarge; chunk.ErrNotStored; and
// chunk.ErrUnknownOutcome, when the server did not answer within Patience or the
// context. ErrMoved may be about the message itself, if an earlier try was
// stored: a single server compares the sequence before the id, and every server
// forgets ids. Look at what is there.
func (a *API) Put(ctx context.Context, p Put) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Patience)
	defer cancel()
	outcome := chunk.ErrNotStored
	for backoff := firstBackoff; ; {
		seq, err := a.attempt(ctx, p)
		wait := backoff
		switch code := refusal(err).ErrorCode; {
		case err == nil:
			return seq, nil
		case code == codeMoved:
			return 0, ErrMoved
		case code == codeContended, code == codeRepeating:
			wait = contention/2 + rand.N(contention)
		case errors.Is(err, nats.ErrMaxPayload), code == codeTooLarge:
			return 0, fmt.Errorf("%w: %d bytes", chunk.ErrTooLarge, len(p.Msg.Data))
		case verdict(err):
			return 0, fmt.Errorf("%w: %w", outcome, err)
		case !errors.Is(err, jetstream.ErrNoStreamResponse) && !errors.Is(err, nats.ErrConnectionClosed):
			outcome = chunk.ErrUnknownOutcome // it may be on its way, in a buffer or stored
		}
		if errors.Is(err, nats.ErrConnectionClosed) || !pause(ctx, wait) {
			return 0, fmt.Errorf("%w: %w", outcome, err)
		}
		if wait >= backoff {
			backoff = min(2*backoff, lastBackoff)
		}
	}
}

func (a *API) attempt(ctx context.Context, p Put) (uint64, error) {
	opts := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0), jetstream.WithExpectStream(p.Stream)}
	if p.After != nil {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(*p.After))
	}
	return once(ctx, p.Patience, func(ctx context.Context) (uint64, error) {
		ack, err := a.js.PublishMsg(ctx, p.Msg, opts...)
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	})
}

// refusal is what the server answered instead of storing, zero if it did not answer.
func refusal(err error) jetstream.APIError {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return *api
	}
	return jetstream.APIError{}
}

// verdict reports a refusal that will be the same the next time, in contrast to
// a moment of weakness (5xx: no leader, no room; 429: too much at once).
func verdict(err error) bool {
	code := refusal(err).Code
	return code > 0 && code < http.StatusInternalServerError && code != http.StatusTooManyRequests
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// LastWithin is Last, asked again for as long as patience while the stream has
// no leader or nobody answers.
func (a *API) LastWithin(ctx context.Context, patience time.Duration, stream, subject string) (Message, error) {
	return Within(ctx, patience, func(ctx context.Context) (Message, error) { return a.Last(ctx, stream, subject) })
}

// NextWithin is Next, asked again like LastWithin.
func (a *API) NextWithin(ctx context.Context, patience time.Duration, stream, filter string, from uint64) (Message, error) {
	return Within(ctx, patience, func(ctx context.Context) (Message, error) { return a.Next(ctx, stream, filter, from) })
}

// PurgeWithin is Purge, asked again like LastWithin. An earlier try may have
// purged what is not counted then.
func (a *API) PurgeWithin(ctx context.Context, patience time.Duration, stream, subject string, below uint64) (uint64, error) {
	return Within(ctx, patience, func(ctx context.Context) (uint64, error) { return a.Purge(ctx, stream, subject, below) })
}

// Within asks until there is an answer, a verdict included, for as long as
// patience.
func Within[T any](ctx context.Context, patience time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		v, err := once(ctx, patience, ask)
		if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) || verdict(err) || errors.Is(err, nats.ErrConnectionClosed) || !pause(ctx, backoff) {
			return v, err
		}
	}
}

// once is one try. Who is in a hurry asks again soon, because the question may be
// lost; who is patient hears a server that takes seconds for everything.
func once[T any](ctx context.Context, patience time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, max(attemptLimit, patience/5))
	defer cancel()
	return ask(ctx)
}
