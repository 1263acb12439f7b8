package deadletters

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures a Store. The zero Config is ready for production.
type Config struct {
	// Layout names the stream of dead letters and the streams of the log.
	Layout subjects.Layout

	// Metrics, if not nil, gets tailrace_projector_dead_letters_total.
	Metrics prometheus.Registerer
}

// Store is the stream of dead letters, which package topology creates. Its methods may be called concurrently. It holds no resources.
type Store struct {
	client *jsclient.Client
	layout subjects.Layout
	added  *prometheus.CounterVec
}

var _ projector.DeadLetterSink = (*Store)(nil)

// retryTimeout is the retry budget of one write.
const retryTimeout = 5 * time.Second

// New returns a Store. It does not call the server. The error names the invalid field of cfg.
func New(js jetstream.JetStream, cfg Config) (*Store, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	b := &Store{client: jsclient.New(js), layout: cfg.Layout, added: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tailrace_projector_dead_letters_total",
		Help: "Messages stored as dead letters, by reason: record (cannot be folded), envelope (not a record) or subject (not a subject of a session).",
	}, []string{"reason"})}
	for _, reason := range Reasons() {
		b.added.WithLabelValues(string(reason)) // a counter that exists from the start shows its first increment
	}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(b.added); err != nil {
			return nil, fmt.Errorf("Metrics: %w", err)
		}
	}
	return b, nil
}

// Add implements projector.DeadLetterSink.
func (b *Store) Add(ctx context.Context, rec chunk.Record, reason string) error {
	p := b.layout.Partition(rec.Session)
	subject, err := b.layout.Subject(rec.Session)
	if err != nil {
		return err
	}
	origin := Origin{Stream: b.layout.Stream(p), Subject: subject, Seq: rec.Seq, Stored: rec.StoredAt}
	return b.add(ctx, p, Entry{Reason: ReasonRecord, Detail: line(reason), Session: rec.Session, Origin: origin})
}

// AddMalformed stores a message of a partition that is not a record. It sets the Stream of origin to that of the partition.
func (b *Store) AddMalformed(ctx context.Context, partition int, origin Origin, reason error) error {
	entry := Entry{Reason: ReasonEnvelope, Detail: line(reason.Error()), Origin: origin}
	entry.Origin.Stream = b.layout.Stream(partition)
	var err error
	if entry.Session, err = b.layout.Parse(origin.Subject); err != nil {
		entry.Reason = ReasonSubject
	}
	return b.add(ctx, partition, entry)
}

func (b *Store) add(ctx context.Context, partition int, entry Entry) error {
	subject, err := b.subject(partition, &entry)
	if err != nil {
		return err
	}
	m, err := b.at(ctx, entry.Origin.Stream, uint64(entry.Origin.Seq))
	switch {
	case errors.Is(err, jsclient.ErrNotFound), err == nil && !m.Stored.Equal(entry.Origin.Stored):
		entry.Missing = MissingExpired
	case err != nil:
		return err
	default:
		entry.Header, entry.Data = m.Block, m.Data
	}
	err = b.insert(ctx, entry.message(subject))
	if errors.Is(err, chunk.ErrTooLarge) {
		entry.Header, entry.Data, entry.Missing = nil, nil, MissingTooLarge
		err = b.insert(ctx, entry.message(subject))
	}
	switch {
	case errors.Is(err, jsclient.ErrConflict): // stored already
		return nil
	case err != nil:
		return fmt.Errorf("store dead letter %s of %s: %w", entry.Origin.id(), entry.Origin.Stream, err)
	}
	b.added.WithLabelValues(string(entry.Reason)).Inc()
	return nil
}

// at returns the message of a sequence as the leader has it, because only the leader returns malformed headers.
func (b *Store) at(ctx context.Context, stream string, seq uint64) (jsclient.Message, error) {
	m, err := b.client.Next(ctx, stream, ">", seq)
	if err == nil && m.Seq != seq {
		return jsclient.Message{}, jsclient.ErrNotFound
	}
	return m, err
}

func (b *Store) subject(partition int, entry *Entry) (string, error) {
	if entry.Session == (chunk.Session{}) {
		return b.layout.DeadLetterWithoutSession(partition, entry.Origin.id())
	}
	return b.layout.DeadLetter(entry.Session, entry.Origin.id())
}

// insert stores an entry as the only one of its subject, or returns jsclient.ErrConflict. A message id would prevent a second entry only for the length of
// the duplicate window, and a session may be refolded a month later.
func (b *Store) insert(ctx context.Context, m *nats.Msg) error {
	_, err := b.client.Put(ctx, jsclient.Put{Msg: m, Stream: b.layout.DeadLetterStream(), ExpectedSeq: new(uint64(0)), RetryTimeout: retryTimeout})
	return err
}

// ErrNotFound reports a sequence without an entry: it was deleted or has expired.
var ErrNotFound = errors.New("no such dead letter")

// Get returns the entry with a sequence.
func (b *Store) Get(ctx context.Context, seq uint64) (Entry, error) {
	m, err := b.at(ctx, b.layout.DeadLetterStream(), seq)
	if errors.Is(err, jsclient.ErrNotFound) {
		return Entry{}, fmt.Errorf("%d: %w", seq, ErrNotFound)
	}
	if err != nil {
		return Entry{}, err
	}
	return parse(m, b.layout), nil
}

// All yields every entry, the oldest first, then at most one error.
func (b *Store) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for from := uint64(1); ; {
			m, err := b.client.Next(ctx, b.layout.DeadLetterStream(), ">", from)
			if errors.Is(err, jsclient.ErrNotFound) {
				return
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(parse(m, b.layout), nil) {
				return
			}
			from = m.Seq + 1
		}
	}
}

// Delete removes an entry. Its record stays in the log, and its fault in the snapshot; refolding the session adds the entry again.
func (b *Store) Delete(ctx context.Context, seq uint64) error {
	err := b.client.Delete(ctx, b.layout.DeadLetterStream(), seq)
	if errors.Is(err, jsclient.ErrNotFound) {
		return fmt.Errorf("%d: %w", seq, ErrNotFound)
	}
	return err
}
