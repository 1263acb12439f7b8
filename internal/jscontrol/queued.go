package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
)

// Enqueue stores a message that waits. A repetition changes nothing, in whatever state the stored message is. The error is control.ErrQueueFull if it has no place
// among the others, also if several processes store messages at the same time; other errors are those of Stop.
func (b *Inbox) Enqueue(ctx context.Context, m control.Queued) error {
	s := m.Command.Session
	key, err := names.InboxQueuedKey(s, m.Command.RunID)
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	filter, err := names.InboxQueuedKeys(s)
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	data, err := m.Encode()
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	err = b.untilStored(ctx, func(ctx context.Context) error {
		all, last, err := b.queued(ctx, s, filter)
		if err != nil || slices.ContainsFunc(all, func(q control.Queued) bool { return q.Command.RunID == m.Command.RunID }) {
			return err
		}
		if err := m.CheckRoom(all); err != nil {
			return err
		}
		return b.put(ctx, jsclient.Put{Msg: nats.NewMsg(b.api.PublishSubject(b.subject(key))), ExpectedSeq: &last, ExpectedFilter: b.subject(filter)}, data)
	})
	if err != nil {
		return fmt.Errorf("enqueue run %s: %w", m.Command.RunID, err)
	}
	return nil
}

// untilStored calls f until the state that it has read is the one after which it has written, and the outcome of that is known.
func (b *Inbox) untilStored(ctx context.Context, f func(ctx context.Context) error) error {
	trying, cancel := context.WithTimeout(ctx, b.cfg.RetryTimeout)
	defer cancel()
	for {
		err := f(trying)
		if errors.Is(err, jsclient.ErrConflict) || errors.Is(err, chunk.ErrUnknownOutcome) && trying.Err() == nil {
			continue // the stored state decides: an earlier attempt may have been stored
		}
		return err
	}
}

func (b *Inbox) put(ctx context.Context, p jsclient.Put, data []byte) error {
	p.Msg.Data, p.Stream, p.RetryTimeout = data, b.stream(), b.cfg.RetryTimeout
	_, err := b.api.Put(ctx, p)
	return err
}

// Queued returns the messages of a session that wait or have waited, in the order of their last change. A malformed one is left out. Errors are those of Answers.
func (b *Inbox) Queued(ctx context.Context, s chunk.Session) ([]control.Queued, error) {
	filter, err := names.InboxQueuedKeys(s)
	if err != nil {
		return nil, fmt.Errorf("queued: %w", err)
	}
	all, _, err := b.queued(ctx, s, filter)
	return all, err
}

// queued returns the messages of a session, and the sequence of the last one that is stored.
func (b *Inbox) queued(ctx context.Context, s chunk.Session, filter string) (all []control.Queued, last uint64, err error) {
	for m, err := range b.api.Each(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(filter)) {
		if err != nil {
			return nil, 0, fmt.Errorf("messages queued in %s: %w", s, err)
		}
		last = m.Seq
		q, err := control.DecodeQueued(s, strings.TrimPrefix(m.Subject, b.subject("")), m.Data)
		switch {
		case err == nil:
			all = append(all, q)
		case !errors.Is(err, control.ErrMalformed):
			return nil, 0, fmt.Errorf("messages queued in %s: %w", s, err)
		}
	}
	return all, last, nil
}

// withdrawnAge is the time for which the inbox knows a message that was withdrawn: a page that has lost its response may repeat its request.
const withdrawnAge = 24 * time.Hour

// QueuedBefore returns the sessions that have messages of before a time that wait, each once. It removes messages that were withdrawn withdrawnAge earlier. A
// message of a newer build is left to that.
func (b *Inbox) QueuedBefore(ctx context.Context, before time.Time) ([]chunk.Session, error) {
	var all []chunk.Session
	for m, err := range b.api.Each(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(names.InboxAllQueuedKeys())) {
		if err != nil {
			return nil, fmt.Errorf("queued messages: %w", err)
		}
		key := strings.TrimPrefix(m.Subject, b.subject(""))
		s, err := names.ParseInboxQueuedKey(key)
		if err != nil || !m.Stored.Before(before) {
			continue
		}
		q, err := control.DecodeQueued(s, key, m.Data)
		switch {
		case err != nil:
		case q.Open() && !slices.Contains(all, s):
			all = append(all, s)
		case q.State == control.QueuedWithdrawn && m.Stored.Before(before.Add(-withdrawnAge)):
			if _, err := b.api.PurgeRetry(ctx, b.cfg.RetryTimeout, b.stream(), m.Subject, m.Seq+1); err != nil {
				return nil, fmt.Errorf("forget messages that were withdrawn in %s: %w", s, err)
			}
		}
	}
	return all, nil
}

// DeleteQueued removes the messages of a session that wait: no process starts one any more.
func (b *Inbox) DeleteQueued(ctx context.Context, s chunk.Session) error {
	filter, err := names.InboxQueuedKeys(s)
	if err == nil {
		_, err = b.api.PurgeRetry(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(filter), 0)
	}
	if err != nil {
		return fmt.Errorf("forget the messages queued in %s: %w", s, err)
	}
	return nil
}

// SetQueued changes the state of a message. Of a start and a withdrawal at the same time exactly one succeeds; the other is control.ErrNotQueued, as for a message
// that was deleted with its session. A repetition changes nothing. Other errors are those of Stop.
func (b *Inbox) SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error {
	key, err := names.InboxQueuedKey(s, run)
	if err != nil {
		return fmt.Errorf("queued message: %w", err)
	}
	if err = b.untilStored(ctx, func(ctx context.Context) error { return b.setQueued(ctx, s, key, state) }); err != nil {
		return fmt.Errorf("message of run %s is to be %s: %w", run, state, err)
	}
	return nil
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
	return b.put(ctx, jsclient.Put{Msg: nats.NewMsg(b.api.PublishSubject(b.subject(key))), ExpectedSeq: &stored.Seq}, data)
}
