package consumers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// env is a server with the log, a connection that writes to the log, and a Reader over a connection of its own.
type env struct {
	t      testing.TB
	srv    *natstest.Server
	js     jetstream.JetStream // for writing
	reader *Reader
	layout subjects.Layout
	next   map[chunk.Session]chunk.Ordinal
}

const stream = "TR_CHUNKS_0"

var alice = chunk.RootSession("acme", "alice")

func newEnv(tb testing.TB, cfg Config, opts ...natstest.Option) *env {
	tb.Helper()
	srv := streamtest.Start(tb, opts...)
	w := &env{t: tb, srv: srv, js: srv.JetStream(tb), next: map[chunk.Session]chunk.Ordinal{}}
	w.reader = w.newReader(cfg, srv.Conn(tb))
	return w
}

func (w *env) newReader(cfg Config, nc *nats.Conn) *Reader {
	w.t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := New(js, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// say writes text as the next record of s.
func (w *env) say(s chunk.Session, text string) chunk.Record {
	w.t.Helper()
	return w.put(s, 1, chunk.TextDelta{Delta: text})
}

// sayAll writes n records.
func (w *env) sayAll(s chunk.Session, n int) []chunk.Record {
	w.t.Helper()
	recs := make([]chunk.Record, n)
	for i := range recs {
		recs[i] = w.say(s, fmt.Sprint("word ", w.next[s]+1))
	}
	return recs
}

// put writes the next record of s with an epoch.
func (w *env) put(s chunk.Session, e chunk.Epoch, body chunk.Body) chunk.Record {
	w.t.Helper()
	w.next[s]++
	return w.putAt(s, e, w.next[s], body)
}

// putAt writes a record with any ordinal, as a broken writer would.
func (w *env) putAt(s chunk.Session, e chunk.Epoch, o chunk.Ordinal, body chunk.Body) chunk.Record {
	w.t.Helper()
	msg := w.encode(s, e, o, body)
	ack, err := w.js.PublishMsg(w.t.Context(), msg)
	if err != nil {
		w.t.Fatal(err)
	}
	return chunk.Record{Seq: chunk.Seq(ack.Sequence), Session: s, Epoch: e, Ordinal: o, Type: chunk.Chunk{Body: body}.Type(), Data: msg.Data}
}

func (w *env) encode(s chunk.Session, e chunk.Epoch, o chunk.Ordinal, body chunk.Body) *nats.Msg {
	w.t.Helper()
	return streamtest.Message(w.t, w.layout, codec.Envelope{Session: s, Epoch: e, Ordinal: o}, body)
}

// malformed writes a malformed message.
func (w *env) malformed(s chunk.Session) chunk.Seq {
	w.t.Helper()
	subject, err := w.layout.Subject(s)
	if err != nil {
		w.t.Fatal(err)
	}
	ack, err := w.js.Publish(w.t.Context(), subject, []byte("not an event"))
	if err != nil {
		w.t.Fatal(err)
	}
	return chunk.Seq(ack.Sequence)
}

// cleanUp removes records as a writer does: it writes the truncated record and then deletes the messages.
func (w *env) cleanUp(s chunk.Session, removed ...chunk.Record) chunk.Record {
	w.t.Helper()
	marker := w.mark(s, removed...)
	for _, r := range removed {
		w.remove(r)
	}
	return marker
}

func (w *env) mark(s chunk.Session, removed ...chunk.Record) chunk.Record {
	w.t.Helper()
	body := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(removed[0].Seq), AtSequence: int64(removed[len(removed)-1].Seq)}
	for _, r := range removed {
		body.Removed = append(body.Removed, chunk.OrdinalRange{First: int64(r.Ordinal), Last: int64(r.Ordinal)})
	}
	return w.put(s, 1, body)
}

func (w *env) remove(rec chunk.Record) {
	w.t.Helper()
	if err := w.stream().DeleteMsg(w.t.Context(), uint64(rec.Seq)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) stream() jetstream.Stream {
	w.t.Helper()
	s, err := w.js.Stream(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// purgeUpTo removes everything of the stream before a sequence, as retention does.
func (w *env) purgeUpTo(seq chunk.Seq) {
	w.t.Helper()
	if err := w.stream().Purge(w.t.Context(), jetstream.WithPurgeSequence(uint64(seq))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *env) purgeSession(s chunk.Session, opts ...jetstream.StreamPurgeOpt) {
	w.t.Helper()
	subject, err := w.layout.Subject(s)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.stream().Purge(w.t.Context(), append(opts, jetstream.WithPurgeSubject(subject))...); err != nil {
		w.t.Fatal(err)
	}
}

// recreate deletes the stream and creates it again.
func (w *env) recreate() {
	w.t.Helper()
	if err := w.js.DeleteStream(w.t.Context(), stream); err != nil {
		w.t.Fatal(err)
	}
	streamtest.Ensure(w.t, w.js, topology.Config{})
	w.next = map[chunk.Session]chunk.Ordinal{}
}

// noConsumers waits until the stream has no consumers: each read deletes its consumer without waiting for the response of the server.
func (w *env) noConsumers() { w.t.Helper(); w.consumers(0) }

func (w *env) consumers(n int) {
	w.t.Helper()
	defer func() {
		if !w.t.Failed() {
			return
		}
		for info := range w.stream().ListConsumers(w.t.Context()).Info() {
			w.t.Logf("left on the server: %+v", info)
		}
	}()
	w.eventually(fmt.Sprintf("%d consumers are left", n), func() bool {
		info, err := w.stream().Info(w.t.Context())
		return err == nil && info.State.Consumers == n
	})
}

// eventually waits until ok returns true, for changes that the server makes asynchronously.
func (w *env) eventually(what string, ok func() bool) {
	w.t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			w.t.Fatalf("after 10 seconds still not: %s", what)
		}
	}
}

// collect reads an iterator to its end.
func collect(seq iter.Seq2[chunk.Record, error]) ([]chunk.Record, error) {
	var recs []chunk.Record
	for rec, err := range seq {
		if err != nil {
			return recs, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

// handleMsg reads n records and then stops the iteration.
func handleMsg(seq iter.Seq2[chunk.Record, error], n int) ([]chunk.Record, error) {
	var recs []chunk.Record
	for rec, err := range seq {
		if err != nil {
			return recs, err
		}
		if recs = append(recs, rec); len(recs) == n {
			break
		}
	}
	return recs, nil
}

// same fails the test if the records that were read differ from those that were written.
func same(tb testing.TB, got, want []chunk.Record) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("read %d records %v, want %d %v", len(got), positions(got), len(want), positions(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.StoredAt.IsZero() {
			tb.Fatalf("record %d has no StoredAt", i)
		}
		if g.Seq != w.Seq || g.Session != w.Session || g.Epoch != w.Epoch || g.Ordinal != w.Ordinal || g.Type != w.Type || !bytes.Equal(g.Data, w.Data) {
			tb.Fatalf("record %d is\n%+v, want\n%+v", i, g, w)
		}
	}
}

func positions(recs []chunk.Record) []string {
	var out []string
	for _, r := range recs {
		out = append(out, fmt.Sprintf("%d:%s#%d", r.Seq, r.Session.ID, r.Ordinal))
	}
	return out
}

// truncated asserts the reason of a *chunk.TruncatedError.
func truncated(tb testing.TB, err error, reason chunk.TruncationReason) *chunk.TruncatedError {
	tb.Helper()
	var why *chunk.TruncatedError
	if !errors.As(err, &why) {
		tb.Fatalf("err = %v, want a TruncatedError", err)
	}
	if !errors.Is(err, chunk.ErrTruncated) || why.Reason != reason {
		tb.Fatalf("err = %v, want reason %s", err, reason)
	}
	return why
}

func background(tb testing.TB, timeout time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	tb.Cleanup(cancel)
	return ctx
}

func without(recs []chunk.Record, removed ...chunk.Record) []chunk.Record {
	return slices.DeleteFunc(slices.Clone(recs), func(r chunk.Record) bool {
		return slices.ContainsFunc(removed, func(x chunk.Record) bool { return x.Seq == r.Seq })
	})
}
