package jscontrol

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// InboxConfig configures an Inbox. The zero InboxConfig is ready for production.
type InboxConfig struct {
	// Layout names the bucket. All processes of a deployment share it.
	Layout subjects.Layout

	// RetryTimeout limits the retries of one call while the outcome of a write is unknown or the server is unavailable. Defaults to 10 seconds.
	RetryTimeout time.Duration
}

// Inbox is the inbox of all runs. It owns no resources; its methods are safe for concurrent use.
type Inbox struct {
	js  jetstream.JetStream
	api *jsclient.Client
	cfg InboxConfig
}

// NewInbox returns an Inbox over js. It sends no request; the bucket must exist when it is used (package topology creates it).
func NewInbox(js jetstream.JetStream, cfg InboxConfig) (*Inbox, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("inbox: Layout: %w", err)
	}
	cfg.RetryTimeout = cmp.Or(cfg.RetryTimeout, 10*time.Second)
	if cfg.RetryTimeout < 0 {
		return nil, fmt.Errorf("inbox: RetryTimeout is %s, want more than 0", cfg.RetryTimeout)
	}
	return &Inbox{js: js, api: jsclient.New(js), cfg: cfg}, nil
}

// Answer stores a if its call has no answer yet. Of any number of answers at the same time, also of equal ones, exactly one is stored. Nil means that a is.
//
// Errors wrap control.ErrAnswered, a *control.AnsweredError with the answer that counts; chunk.ErrInvalid (a field is wrong) or chunk.ErrTooLarge, with nothing
// sent; chunk.ErrNotStored; chunk.ErrUnknownOutcome, when the server did not respond within RetryTimeout or the context: read Answers then; or
// control.ErrUnsupported when a newer build has answered.
func (b *Inbox) Answer(ctx context.Context, a control.Answer) error {
	if a.At.IsZero() {
		a.At = time.Now()
	}
	if err := a.Validate(); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	key, err := names.InboxAnswerKey(a.Session, a.RunID, a.CallID)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	data, err := a.Encode()
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	err = b.change(ctx, key, data, func(stored []byte) (bool, error) {
		first, err := control.DecodeAnswer(a.Session, a.RunID, key, stored)
		if err == nil {
			err = &control.AnsweredError{Answer: first}
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("answer %.80q: %w", a.CallID, err)
	}
	return nil
}

// Stop stores a stop request. A repetition changes nothing, except that an interrupt becomes an abort. Nil means that the request, or a stronger one, is stored.
// Errors are those of Answer, without ErrAnswered.
func (b *Inbox) Stop(ctx context.Context, s control.Stop) error {
	if s.At.IsZero() {
		s.At = time.Now()
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	key, err := names.InboxStopKey(s.Session, s.RunID)
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	data, err := s.Encode()
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	err = b.change(ctx, key, data, func(stored []byte) (bool, error) {
		first, err := control.DecodeStop(s.Session, s.RunID, stored)
		return err == nil && !s.Escalates(first), err
	})
	if err != nil {
		return fmt.Errorf("stop run %s: %w", s.RunID, err)
	}
	return nil
}

// change writes data under key by compare-and-set. check examines the current value: it is equivalent to data, or may be replaced by it, or check returns an
// error. A malformed value is replaced.
func (b *Inbox) change(ctx context.Context, key string, data []byte, check func(stored []byte) (good bool, err error)) error {
	id := rand.Text()
	msg := &nats.Msg{
		Subject: b.api.PublishSubject(b.subject(key)),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {id}},
	}
	trying, cancel := context.WithTimeout(ctx, b.cfg.RetryTimeout)
	defer cancel()
	for after := uint64(0); ; {
		_, err := b.api.Put(trying, jsclient.Put{Msg: msg, Stream: b.stream(), ExpectedSeq: &after, RetryTimeout: b.cfg.RetryTimeout})
		if err == nil {
			return nil
		}
		moved := errors.Is(err, jsclient.ErrConflict)
		if !moved && !errors.Is(err, chunk.ErrUnknownOutcome) {
			return err
		}
		m, lookErr := b.last(ctx, key)
		if lookErr != nil {
			if moved { // an earlier attempt may have been stored
				err = fmt.Errorf("%w: %w", chunk.ErrUnknownOutcome, lookErr)
			}
			return err
		}
		if m.Header.Get(jetstream.MsgIDHeader) == id {
			return nil // an earlier attempt was stored, and its acknowledgement lost
		}
		if m.Seq > 0 {
			switch good, reason := check(m.Data); {
			case good:
				return nil
			case reason != nil && !errors.Is(reason, control.ErrMalformed):
				return reason
			}
		}
		if !moved {
			return err
		}
		after = m.Seq
	}
}

// Answers returns all answers to a run, oldest first. A malformed answer is left out: its call counts as open. Errors: chunk.ErrInvalid for an invalid name;
// control.ErrUnsupported when a newer build wrote one; otherwise the server could not be reached.
func (b *Inbox) Answers(ctx context.Context, s chunk.Session, run string) ([]control.Answer, error) {
	filter, err := names.InboxAnswerKeys(s, run)
	if err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	var all []control.Answer
	for m, err := range b.api.Each(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(filter)) {
		if err != nil {
			return nil, fmt.Errorf("answers to run %s: %w", run, err)
		}
		a, err := control.DecodeAnswer(s, run, strings.TrimPrefix(m.Subject, b.subject("")), m.Data)
		switch {
		case err == nil:
			all = append(all, a)
		case !errors.Is(err, control.ErrMalformed):
			return nil, fmt.Errorf("answers to run %s: %w", run, err)
		}
	}
	return all, nil
}

// StopRequest returns the request to stop the run, if there is one. Errors are those of Answers.
func (b *Inbox) StopRequest(ctx context.Context, s chunk.Session, run string) (control.Stop, bool, error) {
	key, err := names.InboxStopKey(s, run)
	if err != nil {
		return control.Stop{}, false, fmt.Errorf("stopped: %w", err)
	}
	m, err := b.last(ctx, key)
	var stop control.Stop
	if err == nil && m.Seq > 0 {
		stop, err = control.DecodeStop(s, run, m.Data)
	}
	switch {
	case errors.Is(err, control.ErrMalformed):
		return control.Stop{}, false, nil
	case err != nil:
		return control.Stop{}, false, fmt.Errorf("stop of run %s: %w", run, err)
	}
	return stop, m.Seq > 0, nil
}

// DeleteSession removes the answers and stop requests of a session that is being deleted, and reports whether there were any.
func (b *Inbox) DeleteSession(ctx context.Context, s chunk.Session) (bool, error) {
	keys, err := names.InboxSessionKeys(s)
	if err != nil {
		return false, fmt.Errorf("forget: %w", err)
	}
	n, err := b.api.PurgeRetry(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(keys), 0)
	if err != nil {
		return false, fmt.Errorf("forget the inbox of %s: %w", s, err)
	}
	return n > 0, nil
}

// DeleteOtherRuns removes the answers, stop requests and queued messages of a session that were stored before a time, except those of the runs for which keep
// returns true, and messages that wait.
func (b *Inbox) DeleteOtherRuns(ctx context.Context, s chunk.Session, before time.Time, keep func(run string) bool) error {
	keys, err := names.InboxSessionKeys(s)
	if err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	prefix := strings.TrimSuffix(b.subject(keys), ">")
	for m, err := range b.api.Each(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(keys)) {
		if err != nil {
			return fmt.Errorf("forget the inbox of %s: %w", s, err)
		}
		run, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, prefix), ".")
		if !m.Stored.Before(before) || keep(run) {
			continue
		}
		if q, err := control.DecodeQueued(s, strings.TrimPrefix(m.Subject, b.subject("")), m.Data); err == nil && q.Open() {
			continue // its run has not begun
		}
		if _, err := b.api.PurgeRetry(ctx, b.cfg.RetryTimeout, b.stream(), m.Subject, m.Seq+1); err != nil {
			return fmt.Errorf("forget the inbox of %s: %w", s, err)
		}
	}
	return nil
}

// Watch sends a notification, at most one at a time, when a value was stored for the run: a later read returns it. Notifications are lost when the leader of the
// bucket changes or the connection breaks. stop ends them, and may be called more than once; the channel is not closed.
func (b *Inbox) Watch(s chunk.Session, run string) (hints <-chan struct{}, stop func(), err error) {
	filter, err := names.Layout(b.cfg.Layout).InboxHints(s, run)
	if err != nil {
		return nil, nil, fmt.Errorf("watch: %w", err)
	}
	news := make(chan struct{}, 1)
	sub, err := b.js.Conn().Subscribe(filter, func(*nats.Msg) {
		wait.Signal(news)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch run %s: %w", run, err)
	}
	return news, func() { _ = sub.Unsubscribe() }, nil // it fails if the connection is closed
}

// last returns the value of key, with sequence 0 if there is none.
func (b *Inbox) last(ctx context.Context, key string) (jsclient.Message, error) {
	m, err := b.api.LastRetry(ctx, b.cfg.RetryTimeout, b.stream(), b.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return jsclient.Message{}, nil
	}
	return m, err
}

func (b *Inbox) stream() string { return "KV_" + names.Layout(b.cfg.Layout).Inbox() }

func (b *Inbox) subject(key string) string {
	return "$KV." + names.Layout(b.cfg.Layout).Inbox() + "." + key
}
