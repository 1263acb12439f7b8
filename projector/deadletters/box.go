package deadletters

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Box. The zero Config is ready for production.
type Config struct {
	// Layout names the stream of letters and those of the log.
	Layout subjects.Layout

	// Metrics, if not nil, gets tailrace_projector_dead_letters_total.
	Metrics prometheus.Registerer
}

// Box is the stream of dead letters, which topology makes. Its methods may be
// called concurrently; it holds nothing that would have to be closed.
type Box struct {
	js     jetstream.JetStream
	layout subjects.Layout
	prefix string
	buried *prometheus.CounterVec
}

var _ projector.DeadLetter = (*Box)(nil)

// New makes a Box. It does not ask the server for anything. The error names the
// field of cfg that is wrong.
func New(js jetstream.JetStream, cfg Config) (*Box, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	b := &Box{js: js, layout: cfg.Layout, prefix: apiPrefix(js), buried: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_projector_dead_letters_total",
		Help: "Messages kept as dead letters: record (it cannot be folded), envelope (it is no record) or subject (it is of no session).",
	}, []string{"reason"})}
	for _, reason := range Reasons() {
		b.buried.WithLabelValues(string(reason)) // a counter that is there from the start shows its first step
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(b.buried); err != nil {
			return nil, fmt.Errorf("Metrics: %w", err)
		}
	}
	return b, nil
}

// Bury implements projector.DeadLetter.
func (b *Box) Bury(ctx context.Context, rec chunk.Record, why string) error {
	p := b.layout.Partition(rec.Session)
	subject, err := b.layout.Subject(rec.Session)
	if err != nil {
		return err
	}
	origin := Origin{Stream: b.layout.Stream(p), Subject: subject, Seq: rec.Seq, Stored: rec.Stored}
	return b.bury(ctx, p, Letter{Reason: ReasonRecord, Why: line(why), Session: rec.Session, Origin: origin})
}

// BuryForeign keeps a message of a partition that is no record. The Stream of its
// origin is that of the partition.
func (b *Box) BuryForeign(ctx context.Context, partition int, origin Origin, why error) error {
	letter := Letter{Reason: ReasonEnvelope, Why: line(why.Error()), Origin: origin}
	letter.Origin.Stream = b.layout.Stream(partition)
	var err error
	if letter.Session, err = b.layout.Parse(origin.Subject); err != nil {
		letter.Reason = ReasonSubject
	}
	return b.bury(ctx, partition, letter)
}

func (b *Box) bury(ctx context.Context, partition int, letter Letter) error {
	subject, err := b.subject(partition, &letter)
	if err != nil {
		return err
	}
	m, err := b.get(ctx, letter.Origin.Stream, request{Seq: letter.Origin.Seq})
	switch {
	case errors.Is(err, errMissing), err == nil && !m.time.Equal(letter.Origin.Stored):
		letter.Missing = Gone
	case err != nil:
		return err
	default:
		letter.Header, letter.Data = m.header, m.data
	}
	err = b.keep(ctx, letter.message(subject))
	if tooLarge(err) {
		letter.Header, letter.Data, letter.Missing = nil, nil, TooLarge
		err = b.keep(ctx, letter.message(subject))
	}
	switch {
	case errors.Is(err, errKept):
		return nil
	case err != nil:
		return fmt.Errorf("bury %s of %s: %w", letter.Origin.id(), letter.Origin.Stream, err)
	}
	b.buried.WithLabelValues(string(letter.Reason)).Inc()
	return nil
}

func (b *Box) subject(partition int, letter *Letter) (string, error) {
	if letter.Session == (chunk.Session{}) {
		return b.layout.StrayDeadLetter(partition, letter.Origin.id())
	}
	return b.layout.DeadLetter(letter.Session, letter.Origin.id())
}

// errKept: the letter is there already.
var errKept = errors.New("the letter is there")

// keep stores a letter as the first and only one of its subject. A message id
// would do so for the length of the duplicate window only, and a session may be
// folded anew a month later.
func (b *Box) keep(ctx context.Context, m *nats.Msg) error {
	_, err := b.js.PublishMsg(ctx, m, jetstream.WithExpectStream(b.layout.DeadLetterStream()), jetstream.WithExpectLastSequencePerSubject(0))
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return errKept
	}
	return err
}

// errCodeTooLarge is the server's code for a message over the stream's limit.
const errCodeTooLarge = 10054

func tooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && api.ErrorCode == errCodeTooLarge
}

// ErrNoLetter reports a number that names no letter: it was dropped, or it got
// too old.
var ErrNoLetter = errors.New("no such dead letter")

// Get is the letter of a number.
func (b *Box) Get(ctx context.Context, number uint64) (Letter, error) {
	m, err := b.get(ctx, b.layout.DeadLetterStream(), request{Seq: chunk.Seq(number)})
	if errors.Is(err, errMissing) {
		return Letter{}, fmt.Errorf("%d: %w", number, ErrNoLetter)
	}
	if err != nil {
		return Letter{}, err
	}
	return parse(m, b.layout), nil
}

// All yields every letter, the oldest first, then at most one error.
func (b *Box) All(ctx context.Context) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for from := chunk.Seq(1); ; {
			m, err := b.get(ctx, b.layout.DeadLetterStream(), request{Seq: from, NextFor: ">"})
			if errors.Is(err, errMissing) {
				return
			}
			if err != nil {
				yield(Letter{}, err)
				return
			}
			if !yield(parse(m, b.layout), nil) {
				return
			}
			from = m.seq + 1
		}
	}
}

// Drop forgets a letter. Its record stays in the log and its mark in the
// snapshot; a session that is folded anew writes the letter again.
func (b *Box) Drop(ctx context.Context, number uint64) error {
	stream, err := b.js.Stream(ctx, b.layout.DeadLetterStream())
	if err != nil {
		return err
	}
	if err := stream.DeleteMsg(ctx, number); err != nil {
		if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
			return fmt.Errorf("%d: %w", number, ErrNoLetter)
		}
		return err
	}
	return nil
}
