package consumers

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// writeInBackground writes n records, with a pause after each. It stops at the end of the test.
func (w *env) writeInBackground(s chunk.Session, n int, pause time.Duration) (wait func() []chunk.Record) {
	var recs []chunk.Record
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for range n {
			recs = append(recs, w.say(s, fmt.Sprint("live ", w.next[s]+1)))
			<-tick.C
		}
	})
	w.t.Cleanup(wg.Wait)
	return func() []chunk.Record { wg.Wait(); return recs }
}

// The connection is cut repeatedly while a writer continues to write: the reader gets every record once.
func TestFollowOverConnectionCuts(t *testing.T) {
	w := newEnv(t, Config{})
	proxy := natstest.StartProxy(t, w.srv.URL)
	w.reader = w.newReader(Config{Heartbeat: 200 * time.Millisecond}, natstest.Connect(t, proxy.URL))
	first := w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	tree := w.followTree(alice, 0)
	same(t, f.get(t, 1), []chunk.Record{first})
	wait := w.writeInBackground(alice, 800, time.Millisecond)
	cuts := time.NewTicker(120 * time.Millisecond)
	defer cuts.Stop()
	for range 6 {
		<-cuts.C
		proxy.CloseConnections()
	}
	got := f.get(t, 800)
	same(t, got, wait())
	same(t, tree.get(t, 801)[1:], got)
	if w.reader.Stats().Resets == 0 {
		t.Error("no reset was needed: the cuts had no effect")
	}
	f.stop(t)
	tree.stop(t)
	w.noConsumers()
}

// Messages of the server are lost for some time, without an error.
func TestFollowOverSilentLoss(t *testing.T) {
	w := newEnv(t, Config{})
	proxy := natstest.StartProxy(t, w.srv.URL)
	w.reader = w.newReader(Config{Heartbeat: 100 * time.Millisecond}, natstest.Connect(t, proxy.URL, nats.PingInterval(300*time.Millisecond), nats.MaxPingsOutstanding(1)))
	w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	f.get(t, 1)
	for _, fault := range []func(){proxy.DropReplies, proxy.Stall} {
		resets := w.reader.Stats().Resets
		fault()
		want := w.sayAll(alice, 5)
		w.eventually("the reader has noticed", func() bool { return w.reader.Stats().Resets > resets })
		proxy.Restore()
		want = append(want, w.sayAll(alice, 5)...)
		same(t, f.get(t, 10), want)
	}
	f.stop(t)
}

// F28: the ephemeral consumer is deleted under the reader.
func TestFollowOverDeletedConsumers(t *testing.T) {
	w := newEnv(t, Config{Heartbeat: 200 * time.Millisecond})
	first := w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	same(t, f.get(t, 1), []chunk.Record{first})
	wait := w.writeInBackground(alice, 500, time.Millisecond)
	for range 10 {
		for name := range w.stream().ConsumerNames(t.Context()).Name() {
			if err := w.js.DeleteConsumer(t.Context(), stream, name); err != nil {
				t.Log(err) // it was replaced meanwhile
			}
		}
	}
	got := f.get(t, 500)
	same(t, got, wait())
	f.stop(t)
	w.noConsumers()
}

// A read survives an outage of NATS, and delivery resumes at once after it.
func TestFollowOverARestart(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 3)
	f := w.followSession(alice, chunk.Position{})
	same(t, f.get(t, 3), want)
	w.srv.Shutdown()
	if _, err := w.reader.CheckCursor(background(t, 300*time.Millisecond), alice, chunk.ScopeSession, chunk.Cursor{Seq: 1}); err == nil {
		t.Error("CheckCursor without a server: no error")
	}
	w.srv.Restart(t)
	w.eventually("the writing connection is back", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.js.Stream(ctx, stream)
		return err == nil
	})
	began := time.Now()
	want = w.sayAll(alice, 3)
	same(t, f.get(t, 3), want)
	if d := time.Since(began); d > 3*time.Second { // the bound of one second in the documentation, plus time for a busy machine
		t.Errorf("delivery resumed after %s", d)
	}
	f.stop(t)
	w.noConsumers()
}

// A read that begins during an outage of NATS fails after OpenTimeout.
func TestOutageOfNATSAtTheBeginning(t *testing.T) {
	w := newEnv(t, Config{OpenTimeout: 40 * time.Millisecond})
	w.say(alice, "first")
	w.srv.Shutdown()
	for name, read := range map[string]func() error{
		"replay": func() error { _, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice})); return err },
		"follow": func() error { _, err := collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice})); return err },
		"verify": func() error {
			_, err := w.reader.CheckCursor(t.Context(), alice, chunk.ScopeTree, chunk.Cursor{Seq: 1})
			return err
		},
		"last": func() error { _, err := w.reader.Last(t.Context(), alice); return err },
		"tip":  func() error { _, err := w.reader.Tip(t.Context(), 0); return err },
	} {
		if err := read(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A reader follows a session that is written meanwhile: no record is missing or repeated where the live records follow the history.
func TestHandoverFromHistoryToLive(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 300)
	wait := w.writeInBackground(alice, 200, 500*time.Microsecond)
	var followers []*follower
	for i := range 10 {
		after := chunk.Position{}
		if i > 0 {
			after = want[i*25].Position()
		}
		followers = append(followers, w.followSession(alice, after))
	}
	want = append(want, wait()...)
	for i, f := range followers {
		from := 0
		if i > 0 {
			from = i*25 + 1
		}
		same(t, f.get(t, len(want)-from), want[from:])
		f.stop(t)
	}
	w.noConsumers()
}

// A reader that pauses for longer than its requests last loses its consumer, and continues at its position.
func TestReaderThatPauses(t *testing.T) {
	w := newEnv(t, Config{Heartbeat: 100 * time.Millisecond})
	want := w.sayAll(alice, 3*jsreader.BatchLive)
	var got []chunk.Record
	for rec, err := range w.reader.Follow(t.Context(), chunk.Range{Session: alice}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, rec); len(got) == len(want) {
			break
		}
		if len(got) == 10 {
			for name := range w.stream().ConsumerNames(t.Context()).Name() {
				if err := w.js.DeleteConsumer(t.Context(), stream, name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	same(t, got, want)
	w.noConsumers()
}

func TestFollowEndsWhenTheStreamIsDeleted(t *testing.T) {
	w := newEnv(t, Config{Heartbeat: 100 * time.Millisecond})
	w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	f.get(t, 1)
	if err := w.js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	_, err := f.end(t)
	truncated(t, err, chunk.TruncatedRecreated)
	if _, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice})); err == nil {
		t.Error("a replay without a stream: no error")
	}
}
