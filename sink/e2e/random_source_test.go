package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/subjects"
)

const partitions = 3

var layout = subjects.Layout{Partitions: partitions}

// source is the log of a server, and what will be written to it.
type source struct {
	srv    *natstest.Process
	js     jetstream.JetStream
	client *jsclient.Client
	random *rand.Rand

	last     [partitions]chunk.Seq // of each partition
	oldest   [partitions]chunk.Seq // 0 or the first record that has not expired
	pending  []message
	removals []removal

	written, removed, expired, kills int
}

// place names a record.
type place struct {
	partition int
	seq       chunk.Seq
}

// message is a record that was not written yet, with the log that it is of.
type message struct {
	*nats.Msg
	place

	log   sinktest.Log // nil: the message is not a record
	index int
}

// removes reports whether records are deleted after this one.
func (m message) removes() bool {
	return m.log != nil && (m.log[m.index].Type == chunk.TypeTruncated || m.log[m.index].IsDeletion())
}

// removal deletes messages some time after the record that names them.
type removal struct {
	delay  int // number of batches
	delete func(context.Context) error
}

func startSource(t *testing.T, random *rand.Rand) *source {
	t.Helper()
	srv := natstest.StartProcess(t)
	s := &source{srv: srv, js: srv.JetStream(t), random: random}
	s.client = jsclient.New(s.js)
	streamtest.Ensure(t, s.js, topology.Config{Layout: layout})
	return s
}

// add plans to write logs, which are open at the same time. The records get the sequences that they will have.
func (s *source) add(logs []sinktest.Log) {
	const open = 60 // at the same time
	next := make([]int, len(logs))
	var active []int
	for i := 0; i < len(logs) || len(active) > 0; {
		if i < len(logs) && len(active) < open {
			active = append(active, i)
			i++
			continue
		}
		n := s.random.IntN(len(active))
		log := active[n]
		if next[log] == len(logs[log]) {
			active = slices.Delete(active, n, n+1)
			continue
		}
		m := s.message(logs[log], next[log])
		s.pending = append(s.pending, m)
		next[log]++
		if s.random.IntN(100) == 0 {
			s.pending = append(s.pending, s.malformed(m))
		}
	}
}

// message returns the message of a record, which gets its sequence.
func (s *source) message(log sinktest.Log, index int) message {
	rec := &log[index]
	p := layout.Partition(rec.Session)
	s.last[p]++
	drawn := rec.Seq
	rec.Seq, rec.Epoch = s.last[p], rec.Epoch+1 // an epoch of 0 is not valid in a message
	if b, ok := chunk.BodyOf[chunk.Truncated](*rec); ok && rec.Type == chunk.TypeTruncated && b.FromSequence > 0 {
		s.relocate(log[:index], rec, drawn, b)
	}
	c, _ := rec.Decode()
	m := codec.EncodeJSON(codec.Envelope{Session: rec.Session, Epoch: rec.Epoch, Ordinal: rec.Ordinal}, codec.Header{Type: rec.Type, Timestamp: c.Timestamp}, rec.Data)
	if !isRecord(*rec, m) { // a message that is not a record has no ordinal, so this one becomes a record that is not a chunk
		rec.Data = fmt.Appendf(nil, `{"type":%q,"timestamp":"never"}`, rec.Type)
		m.Data = rec.Data
	}
	subject, err := layout.Subject(rec.Session)
	if err != nil {
		panic(err)
	}
	return message{Msg: expecting(subject, m.Header, m.Data, rec.Seq), place: place{p, rec.Seq}, log: log, index: index}
}

// malformed returns a message of the session of another one that is not a record.
func (s *source) malformed(of message) message {
	p := of.partition
	s.last[p]++
	return message{Msg: expecting(of.Subject, nats.Header{"Ce-Id": {"?"}}, []byte("?"), s.last[p]), place: place{p, s.last[p]}}
}

// expecting returns a message that the server stores with a sequence, or not at all.
func expecting(subject string, header nats.Header, data []byte, seq chunk.Seq) *nats.Msg {
	header.Set("Nats-Expected-Last-Sequence", strconv.FormatUint(uint64(seq-1), 10))
	return &nats.Msg{Subject: subject, Header: header, Data: data}
}

// relocate replaces the sequences in the record of a cleanup.
func (s *source) relocate(before sinktest.Log, rec *chunk.Record, drawn chunk.Seq, b chunk.Truncated) {
	c, err := rec.Decode()
	if err != nil {
		panic(err)
	}
	for _, earlier := range before {
		if earlier.Session == rec.Session && b.Removes(earlier.Ordinal) {
			b.FromSequence = int64(earlier.Seq)
			break
		}
	}
	b.MinSequence, b.AtSequence = b.FromSequence-1, int64(rec.Seq-1)
	c.Body = b
	if rec.Data, err = c.AppendJSON(nil); err != nil {
		panic(fmt.Errorf("record %d: %w", drawn, err))
	}
}

// writeSome writes the beginning of what is pending.
func (s *source) writeSome(t *testing.T) {
	t.Helper()
	s.write(t, s.random.IntN(len(s.pending)/2))
}

// writeRest writes all that is pending, in batches. Some wait until a store has what was written, or most of it.
func (s *source) writeRest(t *testing.T, stores []*stored) {
	t.Helper()
	for len(s.pending) > 0 {
		if at := s.pending[0].place; s.random.IntN(3) == 0 {
			at.seq -= min(at.seq, 1+chunk.Seq(s.random.IntN(100)))
			ctx, cancel := context.WithTimeout(t.Context(), natstest.WaitTimeout)
			err := stores[s.random.IntN(len(stores))].await(ctx, at)
			if cancel(); err != nil {
				t.Fatal(err)
			}
		}
		n := 1 + s.random.IntN(400)
		end := slices.IndexFunc(s.pending, message.removes)
		if end >= 0 && s.random.IntN(2) == 0 {
			n = end + 1
		}
		s.write(t, min(n, len(s.pending)))
	}
	for len(s.removals) > 0 {
		s.remove(t)
	}
}

// write writes a batch. In some batches the server is ended meanwhile.
func (s *source) write(t *testing.T, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	batch := s.pending[:n]
	s.pending = s.pending[n:]
	written := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), natstest.WaitTimeout)
	defer cancel()
	go func() { written <- s.publish(ctx, batch) }()
	if s.random.IntN(25) == 0 {
		s.kills++
		s.srv.Restart(t) // with SIGKILL
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	s.written += n
	for _, m := range batch {
		if m.removes() {
			s.plan(m)
		}
	}
	s.remove(t)
}

// publish writes messages until the server has each of them. The sequence that a message expects keeps their order, also if the server ends meanwhile.
func (s *source) publish(ctx context.Context, batch []message) error {
	for p := range partitions {
		var of []message
		for _, m := range batch {
			if m.partition == p {
				of = append(of, m)
			}
		}
		for len(of) > 0 {
			if err := s.attempt(ctx, of); err != nil && ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
			state, err := request(ctx, s, func(ctx context.Context) (jsclient.State, error) { return s.client.State(ctx, layout.Stream(p), "") })
			if err != nil {
				return err
			}
			of = slices.DeleteFunc(of, func(m message) bool { return uint64(m.seq) <= state.Last })
		}
		if err := s.storedAt(ctx, batch, p); err != nil {
			return err
		}
	}
	return nil
}

// attempt publishes messages and waits for the response to the last one.
func (s *source) attempt(ctx context.Context, of []message) error {
	nc := s.js.Conn()
	last := len(of) - 1
	for _, m := range of[:last] {
		if err := nc.PublishMsg(m.Msg); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: of[last].Subject, Header: of[last].Header, Data: of[last].Data})
	return err
}

// storedAt reads the times of storage of the records without a time of their writer.
func (s *source) storedAt(ctx context.Context, batch []message, p int) error {
	for _, m := range batch {
		if m.partition != p || m.log == nil {
			continue
		}
		rec := &m.log[m.index]
		if c, err := rec.Decode(); err != nil || c.Timestamp > 0 {
			continue
		}
		stored, err := request(ctx, s, func(ctx context.Context) (jsclient.Message, error) {
			return s.client.At(ctx, layout.Stream(p), uint64(m.seq))
		})
		if err != nil {
			return err
		}
		rec.StoredAt = stored.Stored.Truncate(time.Microsecond) // as tables have it
	}
	return nil
}

// request repeats a request that the server does not answer because it has ended.
func request[T any](ctx context.Context, s *source, call func(context.Context) (T, error)) (T, error) {
	return jsclient.Retry(ctx, jsclient.Policy{For: natstest.WaitTimeout, Conn: s.js.Conn()}, call)
}

// plan plans what is deleted after a record: what a cleanup has removed, and the records of a session before its deletion.
func (s *source) plan(m message) {
	rec, stream := m.log[m.index], layout.Stream(m.partition)
	add := func(remove func(context.Context) error) {
		s.removals = append(s.removals, removal{delay: max(0, s.random.IntN(5)-2), delete: remove})
	}
	if rec.IsDeletion() {
		subject, err := layout.Subject(rec.Session)
		if rec.Session.IsRoot() {
			subject, err = layout.Tree(rec.Session)
		}
		add(func(ctx context.Context) error {
			if err != nil {
				return err
			}
			_, err := request(ctx, s, func(ctx context.Context) (uint64, error) {
				return s.client.Purge(ctx, stream, subject, uint64(rec.Seq))
			})
			return err
		})
		return
	}
	for _, removed := range sinktest.RemovedBy(m.log, m.index) {
		s.removed++
		add(func(ctx context.Context) error {
			_, err := request(ctx, s, func(ctx context.Context) (struct{}, error) {
				err := s.client.Delete(ctx, stream, uint64(removed.Seq))
				if errors.Is(err, jsclient.ErrNotFound) {
					err = nil
				}
				return struct{}{}, err
			})
			return err
		})
	}
}

// remove deletes what is due.
func (s *source) remove(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), natstest.WaitTimeout)
	defer cancel()
	later := s.removals[:0]
	for _, r := range s.removals {
		if r.delay > 0 {
			r.delay--
			later = append(later, r)
			continue
		}
		if err := r.delete(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s.removals = later
}

// expire removes the oldest records, as the server does with those that are too old.
func (s *source) expire(t *testing.T) {
	t.Helper()
	for p := range partitions {
		state, err := request(t.Context(), s, func(ctx context.Context) (jsclient.State, error) { return s.client.State(ctx, layout.Stream(p), "") })
		if err != nil {
			t.Fatal(err)
		}
		if state.Last == 0 {
			continue
		}
		first := max(uint64(s.oldest[p]), state.Last-min(state.Last-1, uint64(s.random.IntN(300))))
		if _, err := request(t.Context(), s, func(ctx context.Context) (uint64, error) { return s.client.Purge(ctx, layout.Stream(p), "", first) }); err != nil {
			t.Fatal(err)
		}
		s.oldest[p] = chunk.Seq(first)
	}
}

// readable returns the records of a log that sinks could read.
func (s *source) readable(log sinktest.Log) (left sinktest.Log) {
	for _, rec := range log {
		if rec.Seq < s.oldest[layout.Partition(rec.Session)] {
			s.expired++
			continue
		}
		left = append(left, rec)
	}
	return left
}
