package consumers

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// Reader reads the log. Its methods may be called concurrently; each iterator
// they return belongs to the goroutine that ranges over it. A Reader holds
// nothing that would have to be closed.
type Reader struct {
	cfg Config
	api *api

	foreign, stale, resets, archived atomic.Uint64
}

// New makes a Reader over nc and js, which must be of the same server. It does
// not ask the server for anything. The error names the field of cfg that is
// wrong.
func New(nc *nats.Conn, js jetstream.JetStream, cfg Config) (*Reader, error) {
	if nc == nil || js == nil {
		return nil, errors.New("a Reader needs a connection and its JetStream")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.OnForeign == nil {
		cfg.OnForeign = warnForeign(cfg.Log)
	}
	return &Reader{cfg: cfg, api: newAPI(nc, js)}, nil
}

// Last is the last record of s, as the leader of its stream has it: whoever
// was told that a record is stored finds it or a later one here. The error is
// chunk.ErrUnknownSession when the log holds none.
func (r *Reader) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	subject, err := r.cfg.Layout.Subject(s)
	if err != nil {
		return chunk.Record{}, err
	}
	stream := r.cfg.Layout.Stream(r.cfg.Layout.Partition(s))
	var rec chunk.Record
	err = r.api.retry(ctx, r.cfg.Patience, func(ctx context.Context) error {
		rec, err = r.lastRecord(ctx, stream, subject, s)
		return err
	})
	if errors.Is(err, errMissing) {
		return chunk.Record{}, chunk.ErrUnknownSession
	}
	return rec, err
}

// Tip is the end of a partition's stream, as its leader knows it. The epoch is
// made of the time of the stream's creation.
func (r *Reader) Tip(ctx context.Context, partition int) (chunk.Tip, error) {
	if err := r.checkPartition(partition); err != nil {
		return chunk.Tip{}, err
	}
	var state streamState
	err := r.api.retry(ctx, r.cfg.Patience, func(ctx context.Context) (err error) {
		state, err = r.api.state(ctx, r.cfg.Layout.Stream(partition))
		return err
	})
	if err != nil {
		return chunk.Tip{}, err
	}
	return chunk.Tip{Seq: state.last, Epoch: strconv.FormatInt(state.created.UnixNano(), 36)}, nil
}

// lastRecord is the last message of the subject that is a record; errMissing
// when there is none.
func (r *Reader) lastRecord(ctx context.Context, stream, subject string, s chunk.Session) (chunk.Record, error) {
	m, err := r.api.lastOf(ctx, stream, subject)
	for err == nil {
		var rec chunk.Record
		if rec, err = m.record(s); err == nil {
			return rec, nil
		}
		if m.seq <= 1 {
			return chunk.Record{}, errMissing
		}
		r.passOver(Foreign{Stream: stream, Subject: subject, Seq: m.seq, Err: err})
		m, err = r.api.before(ctx, stream, subject, m.seq-1)
	}
	return chunk.Record{}, err
}

// record reads the message as a record of s; *codec.EnvelopeError.
func (m message) record(s chunk.Session) (chunk.Record, error) {
	return codec.Decode(s, m.seq, m.time, m.header, m.data)
}

// sessionOf reads the subject of a message; *subjects.ParseError.
func (r *Reader) sessionOf(subject string) (chunk.Session, error) {
	return r.cfg.Layout.Parse(subject)
}

func (r *Reader) checkPartition(p int) error {
	if n := r.cfg.Layout.PartitionCount(); p < 0 || p >= n {
		return &PartitionError{Partition: p, Count: n}
	}
	return nil
}
