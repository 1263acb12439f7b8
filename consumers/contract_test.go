package consumers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

func TestLogKeepsTheContract(t *testing.T) {
	memlog.RunContract(t, func(t *testing.T) memlog.TestLog {
		t.Helper()
		return newEnv(t)
	})
}

// env is a server with a Reader, which is the log and the feed of a hub, and methods that write to the log. It keeps the records that it has written and not
// removed.
type env struct {
	*stack.Stack
	*consumers.Reader
	*jsinterest.Follower

	t      *testing.T
	conn   *nats.Conn // of the readers
	layout subjects.Layout
	stored []chunk.Record
	last   map[chunk.Session]chunk.Ordinal
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{Stack: stack.Start(t, stack.Options{Topology: topology.Config{Republish: true}}), t: t, last: make(map[chunk.Session]chunk.Ordinal)}
	w.conn = w.Server.Conn(t)
	w.Reader = w.newReader(consumers.Config{Heartbeat: 100 * time.Millisecond})
	js, err := jetstream.New(w.conn)
	w.must(err)
	w.Follower, err = jsinterest.New(js, jsinterest.Config{Interval: 100 * time.Millisecond})
	w.must(err)
	// The reads of the test have deleted their consumers.
	t.Cleanup(func() {
		natstest.Eventually(t, "the consumers to be deleted", func(ctx context.Context) error {
			s, err := w.JS.Stream(ctx, w.layout.Stream(0))
			if err != nil {
				return err
			}
			if n := s.CachedInfo().State.Consumers; n > 0 {
				return fmt.Errorf("%d are left", n)
			}
			return nil
		})
	})
	return w
}

func (w *env) newReader(cfg consumers.Config) *consumers.Reader {
	w.t.Helper()
	js, err := jetstream.New(w.conn)
	w.must(err)
	r, err := consumers.New(js, cfg)
	w.must(err)
	return r
}

func (w *env) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) Append(s chunk.Session, typ chunk.Type, members string) chunk.Record {
	w.t.Helper()
	return w.append(s, typ, memlog.Body(s, typ, 1, members))
}

// append stores a record as a writer does: only if the last message of the subject is the expected one.
func (w *env) append(s chunk.Session, typ chunk.Type, data []byte) chunk.Record {
	w.t.Helper()
	w.last[s]++
	msg := codec.EncodeJSON(codec.Envelope{Session: s, Epoch: 1, Ordinal: w.last[s]}, codec.Header{Type: typ, Timestamp: 1_700_000_000_000}, data)
	before := chunk.Seq(0)
	for _, rec := range w.stored {
		if rec.Session == s {
			before = rec.Seq
		}
	}
	ack, err := w.JS.PublishMsg(w.t.Context(), &nats.Msg{Subject: w.subject(s), Header: msg.Header, Data: msg.Data},
		jetstream.WithExpectLastSequencePerSubject(uint64(before)))
	w.must(err)
	rec := chunk.Record{Seq: chunk.Seq(ack.Sequence), Session: s, Epoch: 1, Ordinal: w.last[s], Type: typ, Data: data}
	w.stored = append(w.stored, rec)
	return rec
}

func (w *env) Cleanup(s chunk.Session, step int64, minSeq chunk.Seq) {
	w.t.Helper()
	toRemove, members := memlog.PlanCleanup(w.stored, s, step, minSeq)
	if len(toRemove) == 0 {
		return
	}
	w.append(s, chunk.TypeTruncated, memlog.Body(s, chunk.TypeTruncated, step, members))
	w.Delete(toRemove...)
}

func (w *env) Delete(seqs ...chunk.Seq) {
	w.t.Helper()
	stream := w.stream()
	for _, seq := range seqs {
		w.must(stream.DeleteMsg(w.t.Context(), uint64(seq)))
	}
	w.forget(func(rec chunk.Record) bool { return slices.Contains(seqs, rec.Seq) })
}

func (w *env) Expire(through chunk.Seq) {
	w.t.Helper()
	w.must(w.stream().Purge(w.t.Context(), jetstream.WithPurgeSequence(uint64(through)+1)))
	w.forget(func(rec chunk.Record) bool { return rec.Seq <= through })
}

func (w *env) Purge(s chunk.Session) {
	w.t.Helper()
	w.must(w.stream().Purge(w.t.Context(), jetstream.WithPurgeSubject(w.subject(s))))
	w.forget(func(rec chunk.Record) bool { return rec.Session == s })
}

func (w *env) Restart(s chunk.Session) { delete(w.last, s) }

func (w *env) Recreate() {
	w.t.Helper()
	w.must(w.JS.DeleteStream(w.t.Context(), w.layout.Stream(0)))
	streamtest.Ensure(w.t, w.JS, topology.Config{Republish: true})
	w.stored = nil
	clear(w.last)
}

func (w *env) stream() jetstream.Stream {
	w.t.Helper()
	s, err := w.JS.Stream(w.t.Context(), w.layout.Stream(0))
	w.must(err)
	return s
}

func (w *env) subject(s chunk.Session) string {
	w.t.Helper()
	subject, err := w.layout.Subject(s)
	w.must(err)
	return subject
}

func (w *env) forget(gone func(chunk.Record) bool) { w.stored = slices.DeleteFunc(w.stored, gone) }
