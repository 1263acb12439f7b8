package consumers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// feeder runs a Feed in the background.
type feeder struct {
	msgs   chan codec.Stored
	err    error // readable once msgs is closed
	cancel context.CancelFunc
}

func (w *env) feed(partition int, after chunk.Seq) *feeder {
	ctx, cancel := context.WithCancel(w.t.Context())
	f := &feeder{msgs: make(chan codec.Stored, 100_000), cancel: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(f.msgs)
		for m, err := range w.reader.Feed(ctx, partition, after) {
			if err != nil {
				f.err = err
				return
			}
			f.msgs <- m
		}
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

func (f *feeder) get(tb testing.TB, n int) []codec.Stored {
	tb.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	var msgs []codec.Stored
	for len(msgs) < n {
		select {
		case m, ok := <-f.msgs:
			if !ok {
				tb.Fatalf("the feed ended after %d of %d messages: %v", len(msgs), n, f.err)
			}
			msgs = append(msgs, m)
		case <-limit.C:
			tb.Fatalf("after 30 seconds %d of %d messages", len(msgs), n)
		}
	}
	return msgs
}

func (f *feeder) end(tb testing.TB) error {
	tb.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		select {
		case _, ok := <-f.msgs:
			if !ok {
				return f.err
			}
		case <-limit.C:
			tb.Fatal("the feed does not end")
		}
	}
}

func TestFeedIsThePartition(t *testing.T) {
	w := newEnv(t, Config{})
	var want []chunk.Record
	for range 20 {
		want = append(want, w.say(alice, "a"), w.say(chunk.RootSession("other", "bob"), "b"), w.say(alice.Child("kid"), "c"))
	}
	f := w.feed(0, 0)
	var got []chunk.Record
	for _, m := range f.get(t, len(want)) {
		rec, err := codec.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if m.Session != rec.Session || m.Seq != rec.Seq || !m.At.Equal(rec.StoredAt) || len(m.Data) != len(rec.Data) {
			t.Errorf("message %d of %s, %s with %d bytes, does not fit its record", m.Seq, m.Session, m.At, len(m.Data))
		}
		got = append(got, rec)
	}
	same(t, got, want)

	malformed := w.malformed(alice)
	m := f.get(t, 1)[0]
	if _, err := codec.Decode(m); err == nil || m.Seq != malformed {
		t.Errorf("malformed message at %d: no error", m.Seq)
	}
	// A valid envelope with a subject that is not that of a session: a hub must not assign it to a session.
	ev := codec.EncodeJSON(codec.Envelope{Epoch: 1, Ordinal: 1}, codec.Header{Type: chunk.TypeStreamEnd, Timestamp: 1}, []byte(`{"type":"stream_end"}`))
	if _, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: "tr.chunks.0.acme.alice.%", Header: ev.Header, Data: ev.Data}); err != nil {
		t.Fatal(err)
	}
	m = f.get(t, 1)[0]
	if _, err := codec.Decode(m); err == nil || m.Session != (chunk.Session{}) {
		t.Errorf("message of session %q, error %v", m.Session, err)
	}
	f.cancel()
	if err := f.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
	w.noConsumers()
}

func TestFeedStartPosition(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 10)
	middle, tip, last := w.feed(0, recs[4].Seq), w.feed(0, SeqLatest), w.feed(0, recs[9].Seq)
	if m := middle.get(t, 5); m[0].Seq != recs[5].Seq {
		t.Errorf("a feed after %d begins with %d", recs[4].Seq, m[0].Seq)
	}
	w.eventually("all feeds are attached", func() bool {
		info, err := w.stream().Info(t.Context())
		return err == nil && info.State.Consumers == 3
	})
	next := w.say(alice, "next")
	for name, f := range map[string]*feeder{"middle": middle, "tip": tip, "last": last} {
		if m := f.get(t, 1)[0]; m.Seq != next.Seq {
			t.Errorf("%s: %d, want %d", name, m.Seq, next.Seq)
		}
	}
	truncated(t, w.feed(0, next.Seq+1).end(t), chunk.TruncatedFuture)
	w.purgeUpTo(recs[6].Seq)
	truncated(t, w.feed(0, recs[2].Seq).end(t), chunk.TruncatedExpired)
	if m := w.feed(0, recs[5].Seq).get(t, 1)[0]; m.Seq != recs[6].Seq {
		t.Errorf("a feed at the first sequence begins with %d, want %d", m.Seq, recs[6].Seq)
	}
	if err := w.feed(3, 0).end(t); err == nil || err.Error() != "partition 3: want 0 to 0" {
		t.Errorf("partition 3 of 1: err = %v", err)
	}
}

func TestFeedOverCutsAndARecreatedStream(t *testing.T) {
	w := newEnv(t, Config{})
	proxy := natstest.StartProxy(t, w.srv.URL)
	w.reader = w.newReader(Config{Heartbeat: 100 * time.Millisecond}, natstest.Connect(t, proxy.URL))
	f := w.feed(0, 0)
	wait := w.writeInBackground(alice, 1000, time.Millisecond)
	var got []codec.Stored
	for range 5 {
		got = append(got, f.get(t, 100)...)
		proxy.CloseConnections()
	}
	got = append(got, f.get(t, 500)...)
	for i, want := range wait() {
		if got[i].Seq != want.Seq {
			t.Fatalf("message %d is %d, want %d", i, got[i].Seq, want.Seq)
		}
	}
	w.recreate()
	w.sayAll(alice, 3)
	truncated(t, f.end(t), chunk.TruncatedRecreated)
	w.noConsumers()
}
