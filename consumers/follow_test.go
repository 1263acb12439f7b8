package consumers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// follower reads in the background and sends the records to a channel.
type follower struct {
	recs   chan chunk.Record
	err    error // readable once recs is closed
	cancel context.CancelFunc
}

func (w *env) follow(read func(ctx context.Context, yield func(chunk.Record, error) bool)) *follower {
	ctx, cancel := context.WithCancel(w.t.Context())
	f := &follower{recs: make(chan chunk.Record, 100_000), cancel: cancel}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(f.recs)
		read(ctx, func(rec chunk.Record, err error) bool {
			if err != nil {
				f.err = err
				return true // an iterator ends by itself after its error
			}
			f.recs <- rec
			return true
		})
	})
	w.t.Cleanup(func() { cancel(); wg.Wait() })
	return f
}

func (w *env) followSession(s chunk.Session, after chunk.Position) *follower {
	return w.follow(func(ctx context.Context, yield func(chunk.Record, error) bool) {
		w.reader.Follow(ctx, chunk.Range{Session: s, After: after})(yield)
	})
}

func (w *env) followTree(s chunk.Session, after chunk.Seq) *follower {
	return w.follow(func(ctx context.Context, yield func(chunk.Record, error) bool) {
		w.reader.Follow(ctx, chunk.Range{Session: s, Tree: true, After: chunk.Position{Seq: after}})(yield)
	})
}

// get waits for n records.
func (f *follower) get(tb testing.TB, n int) []chunk.Record {
	tb.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	var recs []chunk.Record
	for len(recs) < n {
		select {
		case rec, ok := <-f.recs:
			if !ok {
				tb.Fatalf("the follower ended after %d of %d records: %v", len(recs), n, f.err)
			}
			recs = append(recs, rec)
		case <-limit.C:
			tb.Fatalf("after 30 seconds %d of %d records: %v", len(recs), n, positions(recs))
		}
	}
	return recs
}

// end waits for the end of the iteration.
func (f *follower) end(tb testing.TB) ([]chunk.Record, error) {
	tb.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	var recs []chunk.Record
	for {
		select {
		case rec, ok := <-f.recs:
			if !ok {
				return recs, f.err
			}
			recs = append(recs, rec)
		case <-limit.C:
			tb.Fatalf("the follower does not end; it returned %v", positions(recs))
		}
	}
}

// stop cancels and waits.
func (f *follower) stop(tb testing.TB) {
	tb.Helper()
	f.cancel()
	if _, err := f.end(tb); !errors.Is(err, context.Canceled) {
		tb.Fatalf("err = %v, want context.Canceled", err)
	}
}

func TestFollowContinuesLive(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 10)
	f := w.followSession(alice, chunk.Position{})
	same(t, f.get(t, 10), want)
	same(t, f.get(t, 0), nil)
	want = w.sayAll(alice, 1000)
	same(t, f.get(t, 1000), want)
	f.stop(t)
	w.noConsumers()
}

func TestFollowEndsAfterTheTerminalRecord(t *testing.T) {
	w := newEnv(t, Config{})
	f := w.followSession(alice, w.say(alice, "first").Position())
	want := w.sayAll(alice, 3)
	end := w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
	got, err := f.end(t)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, append(want, end))

	t.Run("at once when the position is that record", func(t *testing.T) {
		for _, after := range []chunk.Position{end.Position(), {Seq: end.Seq}} {
			got, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: after}))
			if err != nil || len(got) > 0 {
				t.Errorf("after %v: %v, %v; want nothing", after, positions(got), err)
			}
		}
	})
	t.Run("not when another run follows it", func(t *testing.T) {
		more := append([]chunk.Record{end}, w.sayAll(alice, 2)...)
		f := w.followSession(alice, want[len(want)-1].Position())
		same(t, f.get(t, 3), more)
		f.stop(t)
	})
	t.Run("not when it is kept open", func(t *testing.T) {
		end := w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
		f := w.follow(func(ctx context.Context, yield func(chunk.Record, error) bool) {
			w.reader.Follow(ctx, chunk.Range{Session: alice, After: end.Position(), KeepOpen: true})(yield)
		})
		more := w.sayAll(alice, 2)
		same(t, f.get(t, 2), more)
		f.stop(t)
	})
	w.noConsumers()
}

func TestFollowYieldsTheFailureLast(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 2)
	want = append(want, w.put(alice, 1, chunk.StreamFailed{Error: "the model is gone"}))
	for name, after := range map[string]int{"from the start": 0, "from the failure": 3} {
		pos := chunk.Position{}
		if after > 0 {
			pos.Seq = want[after-1].Seq
		}
		got, err := collect(w.reader.Follow(background(t, 5*time.Second), chunk.Range{Session: alice, After: pos}))
		if !errors.Is(err, chunk.ErrFailed) || err.Error() != "session "+alice.String()+": stream failed: the model is gone" {
			t.Errorf("%s: err = %v, want the failure", name, err)
		}
		same(t, got, want[after:])
	}
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Errorf("a replay of a failed stream: %v", err)
	}
	same(t, got, want)
	w.noConsumers()
}

// The server counts the messages after a terminal record. Those messages may be deleted or malformed; the reader must detect the end nevertheless.
func TestFollowEndsWhenNothingReadableFollowsTheTerminalRecord(t *testing.T) {
	w := newEnv(t, Config{Heartbeat: 100 * time.Millisecond})
	w.say(alice, "first")
	end := w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
	w.malformed(alice)
	for _, after := range []chunk.Position{{}, end.Position(), {Seq: end.Seq}} {
		if _, err := collect(w.reader.Follow(background(t, 10*time.Second), chunk.Range{Session: alice, After: after})); err != nil {
			t.Errorf("after %v: %v", after, err)
		}
	}
}

func TestCancelEndsAWaitingFollower(t *testing.T) {
	w := newEnv(t, Config{})
	w.say(alice, "first")
	f := w.followSession(alice, chunk.Position{})
	f.get(t, 1)
	f.stop(t)
	w.noConsumers()
}

func TestStoppedIterationDeletesItsConsumer(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 700)
	got, err := handleMsg(w.reader.Follow(t.Context(), chunk.Range{Session: alice}), 3)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want[:3])
	got, err = handleMsg(w.reader.Replay(t.Context(), chunk.Range{Session: alice}), 3)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want[:3])
	w.noConsumers()
}

// Each range over an iterator is a new read.
func TestIteratorsCanBeUsedTwice(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 5)
	seq := w.reader.Replay(t.Context(), chunk.Range{Session: alice})
	for range 2 {
		got, err := collect(seq)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
}

func TestThroughBoundsAReplay(t *testing.T) {
	w := newEnv(t, Config{})
	bob := chunk.RootSession("acme", "bob")
	want := w.sayAll(alice, 3)
	gap := w.sayAll(bob, 3)
	want = append(want, w.sayAll(alice, 3)...)
	beyond := w.sayAll(bob, 3)
	for name, c := range map[string]struct {
		after, through chunk.Seq
		want           []chunk.Record
	}{
		"a record":                     {0, want[1].Seq, want[:2]},
		"between records":              {0, gap[1].Seq, want[:3]},
		"the last record":              {0, want[5].Seq, want},
		"beyond the last record":       {0, beyond[2].Seq, want},
		"beyond the log":               {0, beyond[2].Seq + 100, want},
		"nothing between":              {want[2].Seq, gap[2].Seq, nil},
		"nothing after":                {want[5].Seq, beyond[0].Seq, nil},
		"the cursor itself":            {want[2].Seq, want[2].Seq, nil},
		"before the cursor":            {want[2].Seq, want[1].Seq, nil},
		"zero, the present end":        {0, 0, want},
		"one record after the cursor":  {want[2].Seq, want[3].Seq, want[3:4]},
		"an end that is not yet there": {want[5].Seq, beyond[2].Seq + 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := collect(w.reader.Replay(background(t, 5*time.Second), chunk.Range{Session: alice, After: chunk.Position{Seq: c.after}, Through: c.through}))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, c.want)
		})
	}
	w.noConsumers()
}

func TestMalformedMessagesAreSkipped(t *testing.T) {
	reported := make(chan Malformed, 10)
	w := newEnv(t, Config{OnMalformed: func(f Malformed) { reported <- f }})
	want := w.sayAll(alice, 2)
	malformed := w.malformed(alice)
	want = append(want, w.sayAll(alice, 2)...)
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if f := <-reported; f.Seq != malformed || f.Err == nil || f.Stream != stream {
		t.Errorf("OnMalformed got %+v, want sequence %d", f, malformed)
	}
	if n := w.reader.Stats().Malformed; n != 1 {
		t.Errorf("counted %d malformed messages, want 1", n)
	}
	last := w.malformed(alice)
	rec, err := w.reader.Last(t.Context(), alice)
	if err != nil || rec.Seq != want[3].Seq {
		t.Errorf("Last before the malformed message at %d is %d, %v; want %d", last, rec.Seq, err, want[3].Seq)
	}
}

// Readers drop the records that a writer stored after it was fenced.
func TestRecordsOfAFencedWriterAreDropped(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 2)
	want = append(want, w.put(alice, 2, chunk.RunStarted{RunID: "r2", Epoch: 2, Mode: "takeover"}))
	w.putAt(alice, 1, 3, chunk.TextDelta{Delta: "a fenced writer"})
	w.putAt(alice, 1, 4, chunk.TextDelta{Delta: "a fenced writer"})
	w.putAt(alice, 1, 9, chunk.TextDelta{Delta: "a fenced writer"})
	want = append(want, w.put(alice, 2, chunk.TextDelta{Delta: "the new writer"}))
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if n := w.reader.Stats().Fenced; n != 3 {
		t.Errorf("counted %d records of fenced writers, want 3", n)
	}
	for _, after := range []chunk.Position{{Seq: want[2].Seq}, want[2].Position()} {
		got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: chunk.Position{Seq: after.Seq}}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want[3:])
	}
}

func TestLastAndTip(t *testing.T) {
	w := newEnv(t, Config{})
	if tip, err := w.reader.Tip(t.Context(), 0); err != nil || tip.Seq != 0 {
		t.Errorf("Tip of nothing = %+v, %v", tip, err)
	}
	want := w.sayAll(alice, 4)
	other := w.say(chunk.RootSession("acme", "bob"), "x")
	rec, err := w.reader.Last(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	same(t, []chunk.Record{rec}, want[3:])
	if tip, err := w.reader.Tip(t.Context(), 0); err != nil || tip.Seq != other.Seq {
		t.Errorf("Tip = %+v, %v; want %d", tip, err, other.Seq)
	}
	if _, err := w.reader.Tip(t.Context(), 1); err == nil {
		t.Error("Tip of partition 1 of 1: no error")
	}
}

func TestBadSessionNamesAreRefused(t *testing.T) {
	w := newEnv(t, Config{})
	for _, s := range []chunk.Session{{}, {Tenant: "acme", Root: ">", ID: ">"}, {Tenant: "a.b", Root: "r", ID: "r"}, {Tenant: "acme", Root: "r", ID: ">"}} {
		if _, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: s})); !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("session %v: err = %v, want ErrInvalid", s, err)
		}
	}
}

// The log of a session may have expired while its snapshot is still stored. A reader that follows the session from the position of the snapshot waits for the
// next run, which continues its ordinals.
func TestPositionOfASessionWhoseLogHasExpired(t *testing.T) {
	w := newEnv(t, Config{})
	recs := w.sayAll(alice, 4)
	last := w.say(chunk.RootSession("acme", "bob"), "another session")
	w.purgeUpTo(last.Seq)
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: recs[3].Position()}))
	if err != nil || len(got) > 0 {
		t.Errorf("replay: %v, %v; want nothing", positions(got), err)
	}
	f := w.followSession(alice, recs[3].Position())
	w.consumers(1)
	more := w.sayAll(alice, 2)
	same(t, f.get(t, 2), more)
	f.stop(t)
	behind := w.followSession(alice, recs[2].Position())
	_, err = behind.end(t)
	truncated(t, err, chunk.TruncatedExpired)
}
