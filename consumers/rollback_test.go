package consumers

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A server loses power, restarts with an older copy of its files, and assigns the same sequences again. The creation time of the stream is the same, but the
// times at which the messages were stored differ.
func TestReaderReportsARolledBackLog(t *testing.T) {
	for name, again := range map[string]int{"and is shorter now": 1, "and is as long again": 3, "and is longer now": 6} {
		t.Run(name, func(t *testing.T) {
			dir, older := t.TempDir(), t.TempDir()
			w := newEnv(t, Config{Heartbeat: 100 * time.Millisecond}, natstest.StoreDir(dir))
			want := w.sayAll(alice, 5)
			w.srv.Shutdown()
			if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			w.srv.Restart(t)
			w.connected()
			proxy := natstest.StartProxy(t, w.srv.URL)
			w.reader = w.newReader(Config{Heartbeat: 100 * time.Millisecond}, natstest.Connect(t, proxy.URL))
			f, firehose := w.followSession(alice, chunk.Position{}), w.firehose(w.reader, FirehoseConfig{Name: "audit"})
			want = append(want, w.sayAll(alice, 3)...)
			same(t, f.get(t, 8), want)
			same(t, w.sinkHas(firehose, 8), want)

			// The reader reconnects last, so that it cannot detect that the log is shorter for a short time.
			proxy.Refuse()
			w.srv.Shutdown()
			if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), os.CopyFS(dir, os.DirFS(older))); err != nil {
				t.Fatal(err)
			}
			w.srv.Restart(t)
			w.connected()
			w.next[alice] = 5
			w.sayAll(alice, again)
			proxy.Restore()
			got, err := f.end(t)
			why := truncated(t, err, chunk.TruncatedRecreated)
			if len(got) > 0 || why.After != want[7].Seq {
				t.Errorf("records %v, error %+v", positions(got), why)
			}
			<-firehose.done
			truncated(t, firehose.err, chunk.TruncatedRecreated)
		})
	}
}

// connected waits until the writing connection has a server.
func (w *env) connected() {
	w.t.Helper()
	w.eventually("the writing connection is back", func() bool {
		_, err := w.js.Stream(background(w.t, time.Second), stream)
		return err == nil
	})
}

// F38: the server refuses another consumer. A new reader gets the error, unless its session is short; one that has begun continues.
func TestConsumerLimit(t *testing.T) {
	w := newEnv(t, Config{})
	cfg := w.stream().CachedInfo().Config
	cfg.MaxConsumers = 1
	if err := w.js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if _, err := w.js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	first := w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	same(t, f.get(t, 1), []chunk.Record{first})
	short, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Errorf("a short session needs no consumer: %v", err)
	}
	same(t, short, []chunk.Record{first})
	f.get(t, len(w.sayAll(alice, 20)))
	_, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if !errors.Is(err, jetstream.ErrMaximumConsumersLimit) {
		t.Errorf("err = %v, want ErrMaximumConsumersLimit", err)
	}
	for name := range w.stream().ConsumerNames(t.Context()).Name() {
		if err := w.js.DeleteConsumer(t.Context(), stream, name); err != nil {
			t.Fatal(err)
		}
	}
	more := w.sayAll(alice, 2)
	same(t, f.get(t, 2), more)
	f.stop(t)
	w.noConsumers()
}

func TestClosedConnection(t *testing.T) {
	w := newEnv(t, Config{})
	w.say(alice, "first")
	nc := w.srv.Conn(t)
	w.reader = w.newReader(Config{}, nc)
	f := w.followSession(alice, chunk.Position{})
	f.get(t, 1)
	nc.Close()
	if _, err := f.end(t); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("err = %v, want ErrConnectionClosed", err)
	}
	if _, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice})); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("err = %v, want ErrConnectionClosed", err)
	}
}
