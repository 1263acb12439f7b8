package jsclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// Put is a message that is to be stored once.
type Put struct {
	// Msg has a Nats-Msg-Id, by which the server recognises a repetition, unless ExpectedSeq is set.
	Msg *nats.Msg

	// Stream, if not empty, is the name of the stream that must store the message.
	Stream string

	// ExpectedSeq, if not nil, is the expected sequence of the last message of the subject, 0 for no message.
	ExpectedSeq *uint64

	// ExpectedFilter, if not empty, is the filter whose last message ExpectedSeq is of, instead of the subject: of writes under it with the same sequence one is stored.
	ExpectedFilter string

	// RetryTimeout is the retry budget while the outcome is unknown.
	RetryTimeout time.Duration
}

// contention is the delay after another write to the subject was in progress: about the time of that write. It is random, because all writers that were
// refused together would otherwise retry together.
const contention = 2 * time.Millisecond

// Put stores p.Msg, with retries until there is a final result, and returns its sequence. An attempt without a response may have been stored; the message id
// or the expected sequence makes a repetition harmless.
//
// The errors are ErrConflict; chunk.ErrTooLarge; chunk.ErrNotStored; and chunk.ErrUnknownOutcome, when the server did not respond within RetryTimeout or the
// context. The last two wrap chunk.ErrNoStorage if that is the cause; they are returned within seconds then. The cause of ErrConflict may be the message
// itself, if an earlier attempt was stored: a single server compares the sequence before the id, and every server forgets ids. Read the last message of the
// subject then.
func (c *Client) Put(ctx context.Context, p Put) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.RetryTimeout)
	defer cancel()
	outcome := chunk.ErrNotStored
	var full time.Time // when the server first had no storage
	for n := 1; ; n++ {
		seq, err := c.attempt(ctx, p)
		delay := DefaultBackoff.Delay(n)
		result := ResultOf(err)
		if result == Unknown {
			outcome = chunk.ErrUnknownOutcome // in flight, in a buffer, or stored
			err = c.orWriteError(ctx, p, err)
		}
		switch {
		case result == Stored:
			return seq, nil
		case result == Conflict:
			return 0, ErrConflict
		case result == Busy:
			delay = contention/2 + rand.N(contention)
			n--
		case IsTooLarge(err):
			return 0, fmt.Errorf("%w: %d bytes", chunk.ErrTooLarge, len(p.Msg.Data))
		case IsNoStorage(err):
			err = NoStorage(err)
			if full.IsZero() {
				full = time.Now()
			}
			if time.Since(full) > NoStorageTimeout {
				return 0, fmt.Errorf("%w: %w", outcome, err)
			}
		case result == Closed, result == Refused, Final(err):
			return 0, fmt.Errorf("%w: %w", outcome, err)
		}
		if wait.Sleep(ctx, delay) != nil {
			return 0, fmt.Errorf("%w: %w", outcome, err)
		}
	}
}

// orWriteError returns the *WriteError of the stream that did not respond to p, or err if there is none.
func (c *Client) orWriteError(ctx context.Context, p Put, err error) error {
	if p.Stream == "" || ctx.Err() != nil {
		return err
	}
	_, checked := once(ctx, Policy{Conn: c.nc}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.WriteFailed(ctx, p.Stream, p.Msg.Subject)
	})
	if failed, ok := errors.AsType[*WriteError](checked); ok {
		return failed
	}
	return err
}

func (c *Client) attempt(ctx context.Context, p Put) (uint64, error) {
	opts := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if p.Stream != "" {
		opts = append(opts, jetstream.WithExpectStream(p.Stream))
	}
	switch {
	case p.ExpectedFilter != "":
		opts = append(opts, jetstream.WithExpectLastSequenceForSubject(*p.ExpectedSeq, p.ExpectedFilter))
	case p.ExpectedSeq != nil:
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(*p.ExpectedSeq))
	}
	return once(ctx, Policy{For: p.RetryTimeout}, func(ctx context.Context) (uint64, error) {
		before := c.nc.LastError()
		ack, err := c.js.PublishMsg(ctx, p.Msg, opts...)
		if err != nil {
			return 0, denial(c.nc, p.Msg.Subject, before, err)
		}
		return ack.Sequence, nil
	})
}
