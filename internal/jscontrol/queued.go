package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// Enqueue stores a message that waits. A repetition changes nothing, in whatever state the stored message is. Errors are those of Stop.
func (b *Inbox) Enqueue(ctx context.Context, m control.Queued) error {
	key, err := subjects.InboxQueuedKey(m.Command.Session, m.Command.RunID)
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	data, err := m.Encode()
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	err = b.change(ctx, key, data, func(stored []byte) (bool, error) {
		_, err := control.DecodeQueued(m.Command.Session, key, stored)
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("enqueue run %s: %w", m.Command.RunID, err)
	}
	return nil
}

// Queued returns the messages of a session that wait or have waited, in the order of their last change. A malformed one is left out. Errors are those of Answers.
func (b *Inbox) Queued(ctx context.Context, s chunk.Session) ([]control.Queued, error) {
	filter, err := subjects.InboxQueuedKeys(s)
	if err != nil {
		return nil, fmt.Errorf("queued: %w", err)
	}
	var all []control.Queued
	for from := uint64(1); ; {
		m, err := b.api.NextRetry(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(filter), from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("messages queued in %s: %w", s, err)
		}
		from = m.Seq + 1
		q, err := control.DecodeQueued(s, strings.TrimPrefix(m.Subject, b.subject("")), m.Data)
		switch {
		case err == nil:
			q.Revision = control.Revision(m.Seq)
			all = append(all, q)
		case !errors.Is(err, control.ErrMalformed):
			return nil, fmt.Errorf("messages queued in %s: %w", s, err)
		}
	}
}

// SetQueued changes the state of a message. Of a start and a withdrawal at the same time exactly one succeeds; the other is control.ErrNotQueued, as for a message
// that was deleted with its session. A repetition changes nothing. Other errors are those of Stop.
func (b *Inbox) SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error {
	key, err := subjects.InboxQueuedKey(s, run)
	if err != nil {
		return fmt.Errorf("queued message: %w", err)
	}
	trying, cancel := context.WithTimeout(ctx, b.cfg.RetryTimeout)
	defer cancel()
	for {
		err := b.setQueued(trying, s, key, state)
		if errors.Is(err, jsclient.ErrConflict) || errors.Is(err, chunk.ErrUnknownOutcome) && trying.Err() == nil {
			continue // the stored state decides: an earlier attempt may have been stored
		}
		if err != nil {
			return fmt.Errorf("message of run %s is to be %s: %w", run, state, err)
		}
		return nil
	}
}

func (b *Inbox) setQueued(ctx context.Context, s chunk.Session, key string, state control.QueuedState) error {
	stored, err := b.last(ctx, key)
	if err != nil {
		return err
	}
	if stored.Seq == 0 {
		return control.ErrNotQueued
	}
	q, err := control.DecodeQueued(s, key, stored.Data)
	if err != nil {
		return err
	}
	if q.State == state {
		return nil
	}
	if q, err = q.To(state); err != nil {
		return err
	}
	data, err := q.Encode()
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: b.api.PublishSubject(b.subject(key)), Data: data}
	_, err = b.api.Put(ctx, jsclient.Put{Msg: msg, Stream: b.stream(), ExpectedSeq: &stored.Seq, RetryTimeout: b.cfg.RetryTimeout})
	return err
}
