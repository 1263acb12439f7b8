package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Box. The zero Config is ready for production.
type Config struct {
	// Layout names the bucket. All programs of one Tailrace share it.
	Layout subjects.Layout

	// Patience is how long Answer and Stop keep trying while they do not know
	// what came of it, and the others while nobody answers. Defaults to 10
	// seconds.
	Patience time.Duration
}

// Box is the inbox of all runs. It holds nothing but the connection it was
// given; its methods may be called from any goroutine.
type Box struct {
	js  jetstream.JetStream
	api *jsapi.API
	cfg Config
}

// New returns a Box over js. It does not ask the server for anything; the bucket
// must exist by the time it is used (package topology makes it).
func New(js jetstream.JetStream, cfg Config) (*Box, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("inbox: Layout: %w", err)
	}
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Patience < 0 {
		return nil, fmt.Errorf("inbox: Patience is %s, want more than 0", cfg.Patience)
	}
	return &Box{js: js, api: jsapi.New(js), cfg: cfg}, nil
}

// Answer stores a if nobody has answered its call yet. Of any number at the same
// time, and also of equal ones, exactly one is stored. Nil means that a is.
//
// Errors wrap ErrAnswered, an *AnsweredError with the answer that counts;
// chunk.ErrInvalid (a field is wrong) or chunk.ErrTooLarge, with nothing sent;
// chunk.ErrNotStored; chunk.ErrUnknownOutcome, when the server did not answer
// within Patience or the context: look at Answers; or ErrUnsupported when a
// newer build has answered.
func (b *Box) Answer(ctx context.Context, a Answer) error {
	if a.At.IsZero() {
		a.At = time.Now()
	}
	if err := a.validate(); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	key, err := subjects.InboxAnswerKey(a.Session, a.RunID, a.CallID)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	data, err := a.encode()
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	err = b.change(ctx, key, data, func(there []byte) (bool, error) {
		first, err := decodeAnswer(a.Session, a.RunID, key, there)
		if err == nil {
			err = &AnsweredError{Answer: first}
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("answer %.80q: %w", a.CallID, err)
	}
	return nil
}

// Stop asks the run to stop. Asking again changes nothing, but that an Interrupt
// becomes an Abort. Nil means that the wish, or a stronger one, is stored.
// Errors are those of Answer, without ErrAnswered.
func (b *Box) Stop(ctx context.Context, s Stop) error {
	if s.At.IsZero() {
		s.At = time.Now()
	}
	if err := s.validate(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	key, err := subjects.InboxStopKey(s.Session, s.RunID)
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	data, err := s.encode()
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	err = b.change(ctx, key, data, func(there []byte) (bool, error) {
		first, err := decodeStop(s.Session, s.RunID, there)
		return err == nil && !s.raises(first), err
	})
	if err != nil {
		return fmt.Errorf("stop run %s: %w", s.RunID, err)
	}
	return nil
}

// change writes data under key by compare-and-set. Judge looks at the value
// that is there: it is as good as data, or may be replaced by it, or the error
// says why not. What nobody can read (errMalformed) is replaced.
func (b *Box) change(ctx context.Context, key string, data []byte, judge func(there []byte) (good bool, err error)) error {
	id := rand.Text()
	msg := &nats.Msg{
		Subject: b.api.Published(b.subject(key)),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {id}},
	}
	trying, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	for after := uint64(0); ; {
		_, err := b.api.Put(trying, jsapi.Put{Msg: msg, Stream: b.stream(), After: &after, Patience: b.cfg.Patience})
		if err == nil {
			return nil
		}
		moved := errors.Is(err, jsapi.ErrMoved)
		if !moved && !errors.Is(err, chunk.ErrUnknownOutcome) {
			return err
		}
		m, lookErr := b.last(ctx, key)
		if lookErr != nil {
			if moved { // an earlier try may have been stored
				err = fmt.Errorf("%w: %w", chunk.ErrUnknownOutcome, lookErr)
			}
			return err
		}
		if m.Header.Get(jetstream.MsgIDHeader) == id {
			return nil // an earlier try was stored, and its acknowledgement lost
		}
		if m.Seq > 0 {
			switch good, verdict := judge(m.Data); {
			case good:
				return nil
			case verdict != nil && !errors.Is(verdict, errMalformed):
				return verdict
			}
		}
		if !moved {
			return err
		}
		after = m.Seq
	}
}

// Answers are all answers to a run, in the order in which they were given. One
// that nobody can read is left out: its call counts as open. Errors: chunk.ErrInvalid for
// a bad name; ErrUnsupported when a newer build wrote one; otherwise the server
// could not be asked.
func (b *Box) Answers(ctx context.Context, s chunk.Session, run string) ([]Answer, error) {
	filter, err := subjects.InboxAnswerKeys(s, run)
	if err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	var all []Answer
	for from := uint64(1); ; {
		m, err := b.api.NextWithin(ctx, b.cfg.Patience, b.stream(), b.subject(filter), from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("answers to run %s: %w", run, err)
		}
		from = m.Seq + 1
		a, err := decodeAnswer(s, run, strings.TrimPrefix(m.Subject, b.subject("")), m.Data)
		switch {
		case err == nil:
			all = append(all, a)
		case !errors.Is(err, errMalformed):
			return nil, fmt.Errorf("answers to run %s: %w", run, err)
		}
	}
}

// Stopped is the wish that the run stops, if there is one. Errors are those of
// Answers.
func (b *Box) Stopped(ctx context.Context, s chunk.Session, run string) (Stop, bool, error) {
	key, err := subjects.InboxStopKey(s, run)
	if err != nil {
		return Stop{}, false, fmt.Errorf("stopped: %w", err)
	}
	m, err := b.last(ctx, key)
	if err != nil {
		return Stop{}, false, fmt.Errorf("stop of run %s: %w", run, err)
	}
	if m.Seq == 0 {
		return Stop{}, false, nil
	}
	stop, err := decodeStop(s, run, m.Data)
	if errors.Is(err, errMalformed) {
		return Stop{}, false, nil
	}
	if err != nil {
		return Stop{}, false, fmt.Errorf("stop of run %s: %w", run, err)
	}
	return stop, true, nil
}

// Forget removes all that was said to runs of a session that is being deleted,
// and reports whether there was anything.
func (b *Box) Forget(ctx context.Context, s chunk.Session) (bool, error) {
	keys, err := subjects.InboxSessionKeys(s)
	if err != nil {
		return false, fmt.Errorf("forget: %w", err)
	}
	n, err := b.api.PurgeWithin(ctx, b.cfg.Patience, b.stream(), b.subject(keys), 0)
	if err != nil {
		return false, fmt.Errorf("forget the inbox of %s: %w", s, err)
	}
	return n > 0, nil
}

// Watch gives a hint, at most one at a time, when something was stored for the
// run: what is read afterwards has it. Hints are lost when the server changes
// its leader or the connection breaks. They end with stop, which may be called
// more than once; the channel is not closed.
func (b *Box) Watch(s chunk.Session, run string) (hints <-chan struct{}, stop func(), err error) {
	filter, err := b.cfg.Layout.InboxHints(s, run)
	if err != nil {
		return nil, nil, fmt.Errorf("watch: %w", err)
	}
	news := make(chan struct{}, 1)
	sub, err := b.js.Conn().Subscribe(filter, func(*nats.Msg) {
		select {
		case news <- struct{}{}:
		default: // there is one already
		}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch run %s: %w", run, err)
	}
	return news, func() { _ = sub.Unsubscribe() }, nil // it fails when it has ended already
}

// last is the value of key, of sequence 0 if there is none.
func (b *Box) last(ctx context.Context, key string) (jsapi.Message, error) {
	m, err := b.api.LastWithin(ctx, b.cfg.Patience, b.stream(), b.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return jsapi.Message{}, nil
	}
	return m, err
}

func (b *Box) stream() string { return "KV_" + b.cfg.Layout.Inbox() }

func (b *Box) subject(key string) string { return "$KV." + b.cfg.Layout.Inbox() + "." + key }
