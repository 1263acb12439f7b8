package retention

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/subjects"
)

// DeadLetterConfig configures DeadLetters. The zero DeadLetterConfig is ready for production.
type DeadLetterConfig struct {
	// Layout names the stream of dead letters and the streams of the log.
	Layout subjects.Layout

	// Observe, if not nil, is called for each entry that was stored, and not for one that was there already. Calls may overlap.
	Observe func(Reason)
}

// DeadLetters is the stream of dead letters, which package topology creates. Its methods may be called concurrently. It holds no resources.
type DeadLetters struct {
	client  *jsclient.Client
	layout  subjects.Layout
	observe func(Reason) // nil for none
}

var _ projector.DeadLetterSink = (*DeadLetters)(nil)

// deadLetterRetryTimeout is the retry budget of one write.
const deadLetterRetryTimeout = 5 * time.Second

// NewDeadLetters returns the DeadLetters of a layout. It does not call the server. The error names the invalid field of cfg.
func NewDeadLetters(js jetstream.JetStream, cfg DeadLetterConfig) (*DeadLetters, error) {
	if err := checkLayout(cfg.Layout); err != nil {
		return nil, err
	}
	return &DeadLetters{client: jsclient.New(js), layout: cfg.Layout, observe: cfg.Observe}, nil
}

// Add implements projector.DeadLetterSink.
func (d *DeadLetters) Add(ctx context.Context, rec chunk.Record, reason string) error {
	p := d.layout.Partition(rec.Session)
	subject, err := d.layout.Subject(rec.Session)
	if err != nil {
		return err
	}
	origin := Origin{Stream: d.layout.Stream(p), Subject: subject, Seq: rec.Seq, Stored: rec.StoredAt}
	return d.add(ctx, p, DeadLetter{Reason: ReasonRecord, Detail: line(reason), Session: rec.Session, Origin: origin})
}

// AddMalformed stores a message of a partition that is not a record. It sets the Stream of origin to that of the partition.
func (d *DeadLetters) AddMalformed(ctx context.Context, partition int, origin Origin, reason error) error {
	entry := DeadLetter{Reason: ReasonEnvelope, Detail: line(reason.Error()), Origin: origin}
	entry.Origin.Stream = d.layout.Stream(partition)
	var err error
	if entry.Session, err = d.layout.Parse(origin.Subject); err != nil {
		entry.Reason = ReasonSubject
	}
	return d.add(ctx, partition, entry)
}

func (d *DeadLetters) add(ctx context.Context, partition int, entry DeadLetter) error {
	subject, err := d.subject(partition, &entry)
	if err != nil {
		return err
	}
	m, err := d.at(ctx, entry.Origin.Stream, uint64(entry.Origin.Seq))
	switch {
	case errors.Is(err, jsclient.ErrNotFound), err == nil && !m.Stored.Equal(entry.Origin.Stored):
		entry.Missing = MissingExpired
	case err != nil:
		return err
	default:
		entry.Header, entry.Data = m.Block, m.Data
	}
	err = d.insert(ctx, entry.message(subject))
	if errors.Is(err, chunk.ErrTooLarge) {
		entry.Header, entry.Data, entry.Missing = nil, nil, MissingTooLarge
		err = d.insert(ctx, entry.message(subject))
	}
	switch {
	case errors.Is(err, jsclient.ErrConflict): // stored already
		return nil
	case err != nil:
		return fmt.Errorf("store dead letter %s of %s: %w", entry.Origin.id(), entry.Origin.Stream, err)
	}
	if d.observe != nil {
		d.observe(entry.Reason)
	}
	return nil
}

// at returns the message of a sequence as the leader has it, because only the leader returns malformed headers.
func (d *DeadLetters) at(ctx context.Context, stream string, seq uint64) (jsclient.Message, error) {
	m, err := d.client.Next(ctx, stream, ">", seq)
	if err == nil && m.Seq != seq {
		return jsclient.Message{}, jsclient.ErrNotFound
	}
	return m, err
}

func (d *DeadLetters) subject(partition int, entry *DeadLetter) (string, error) {
	if entry.Session == (chunk.Session{}) {
		return names.Layout(d.layout).DeadLetterWithoutSession(partition, entry.Origin.id())
	}
	return names.Layout(d.layout).DeadLetter(entry.Session, entry.Origin.id())
}

// insert stores an entry as the only one of its subject, or returns jsclient.ErrConflict. A message id would prevent a second entry only for the length of
// the duplicate window, and a session may be refolded a month later.
func (d *DeadLetters) insert(ctx context.Context, m *nats.Msg) error {
	_, err := d.client.Put(ctx, jsclient.Put{Msg: m, Stream: names.Layout(d.layout).DeadLetterStream(), ExpectedSeq: new(uint64(0)), RetryTimeout: deadLetterRetryTimeout})
	return err
}

// ErrNoDeadLetter reports a sequence without an entry: it was deleted or has expired.
var ErrNoDeadLetter = errors.New("no such dead letter")

// Get returns the entry with a sequence.
func (d *DeadLetters) Get(ctx context.Context, seq uint64) (DeadLetter, error) {
	m, err := d.at(ctx, names.Layout(d.layout).DeadLetterStream(), seq)
	if errors.Is(err, jsclient.ErrNotFound) {
		return DeadLetter{}, fmt.Errorf("%d: %w", seq, ErrNoDeadLetter)
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return parseDeadLetter(m, d.layout), nil
}

// All yields every entry, the oldest first, then at most one error.
func (d *DeadLetters) All(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for from := uint64(1); ; {
			m, err := d.client.Next(ctx, names.Layout(d.layout).DeadLetterStream(), ">", from)
			if errors.Is(err, jsclient.ErrNotFound) {
				return
			}
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			if !yield(parseDeadLetter(m, d.layout), nil) {
				return
			}
			from = m.Seq + 1
		}
	}
}

// Drop removes an entry. Its record stays in the log, and its fault in the snapshot; refolding the session adds the entry again.
func (d *DeadLetters) Drop(ctx context.Context, seq uint64) error {
	err := d.client.Delete(ctx, names.Layout(d.layout).DeadLetterStream(), seq)
	if errors.Is(err, jsclient.ErrNotFound) {
		return fmt.Errorf("%d: %w", seq, ErrNoDeadLetter)
	}
	return err
}
