package consumers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// Reader reads the log. Its methods may be called concurrently; each iterator that they return belongs to the goroutine that ranges over it. A Reader
// need not be closed.
type Reader struct {
	cfg    Config
	client *jsclient.Client

	malformed, fenced, resets, gaps, deadLetters atomic.Uint64
}

// New returns a Reader over js. It does not call the server. The error names the wrong field of cfg.
func New(js jetstream.JetStream, cfg Config) (*Reader, error) {
	if js == nil {
		return nil, errors.New("js is nil, want a JetStream")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.OnMalformed == nil {
		cfg.OnMalformed = warnMalformed(cfg.Log)
	}
	return &Reader{cfg: cfg, client: jsclient.New(js)}, nil
}

// Last returns the last record of s. The leader of the stream answers: after a writer got the confirmation of a record, Last returns that record or a later
// one. The error is chunk.ErrUnknownSession if the log has no record of s.
func (r *Reader) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	subject, err := r.cfg.Layout.Subject(s)
	if err != nil {
		return chunk.Record{}, err
	}
	stream := r.cfg.Layout.Stream(r.cfg.Layout.Partition(s))
	rec, err := retry(ctx, r, r.cfg.OpenTimeout, func(ctx context.Context) (chunk.Record, error) {
		return r.lastRecord(ctx, stream, subject, s)
	})
	if errors.Is(err, jsclient.ErrNotFound) {
		return chunk.Record{}, chunk.ErrUnknownSession
	}
	return rec, err
}

// LastStored returns when the last message of the tree of s was stored, as the leader of the stream has it. The error is chunk.ErrUnknownSession if the log has
// none.
func (r *Reader) LastStored(ctx context.Context, s chunk.Session) (time.Time, error) {
	filter, err := r.cfg.Layout.Tree(s)
	if err != nil {
		return time.Time{}, err
	}
	m, err := r.client.LastRetry(ctx, r.cfg.OpenTimeout, r.cfg.Layout.Stream(r.cfg.Layout.Partition(s)), filter)
	if errors.Is(err, jsclient.ErrNotFound) {
		return time.Time{}, chunk.ErrUnknownSession
	}
	return m.Stored, err
}

// Tip returns the end of the stream of a partition, from its leader.
func (r *Reader) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	if err := r.checkPartition(partition); err != nil {
		return chunk.Tip{}, err
	}
	state, err := r.state(ctx, r.cfg.Layout.Stream(partition))
	if err != nil {
		return chunk.Tip{}, err
	}
	return chunk.Tip{Seq: chunk.Seq(state.Last), StreamEpoch: state.Epoch}, nil
}

// lastRecord returns the last message of the subject that is a record, or jsclient.ErrNotFound.
func (r *Reader) lastRecord(ctx context.Context, stream, subject string, s chunk.Session) (chunk.Record, error) {
	m, err := r.client.Last(ctx, stream, subject)
	for err == nil {
		var rec chunk.Record
		if rec, err = decode(m, s); err == nil {
			return rec, nil
		}
		if m.Seq <= 1 {
			return chunk.Record{}, jsclient.ErrNotFound
		}
		r.skipMalformed(Malformed{Stream: stream, Subject: subject, Seq: chunk.Seq(m.Seq), Err: err})
		m, err = r.client.Before(ctx, stream, subject, m.Seq-1)
	}
	return chunk.Record{}, err
}

// state returns the state of a stream, with retries.
func (r *Reader) state(ctx context.Context, stream string) (jsclient.State, error) {
	return retry(ctx, r, r.cfg.OpenTimeout, func(ctx context.Context) (jsclient.State, error) {
		return r.client.State(ctx, stream, "")
	})
}

// retry calls ask until it succeeds, returns a final error, or the budget is over; with a budget of 0 it retries until ctx ends.
func retry[T any](ctx context.Context, r *Reader, budget time.Duration, ask func(context.Context) (T, error)) (T, error) {
	return jsclient.Retry(ctx, r.client.Reading(budget), ask)
}

// decode reads a message as a record of s; *codec.EnvelopeError.
func decode(m jsclient.Message, s chunk.Session) (chunk.Record, error) {
	return codec.Decode(codec.Stored{Session: s, Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data})
}

// newOrdered returns an ordered reader with the settings of r.
func (r *Reader) newOrdered(cfg jsreader.OrderedConfig) *jsreader.Ordered {
	cfg.Heartbeat, cfg.WarnAfter, cfg.Log = r.cfg.Heartbeat, r.cfg.OpenTimeout, r.cfg.Log
	cfg.OnReset = func() { r.resets.Add(1) }
	return jsreader.NewOrdered(r.client, cfg)
}

func (r *Reader) checkPartition(p int) error {
	if n := r.cfg.Layout.PartitionCount(); p < 0 || p >= n {
		return fmt.Errorf("partition %d: want 0 to %d", p, n-1)
	}
	return nil
}
