package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// storedText is a record of text and when it was stored.
type storedText struct {
	at   time.Duration
	text string
}

func (l *fakeLog) textsSince(begin time.Time) []storedText {
	l.t.Helper()
	var all []storedText
	for i, s := range l.summary() {
		all = append(all, storedText{at: l.records()[i+1].StoredAt.Sub(begin), text: s})
	}
	return all
}

const testPace = 60 * time.Millisecond

// A model of any speed causes at most one record in the pace. Its first token is stored at once, and no token waits longer than the pace and the message before
// it; one that is slower than the pace never waits.
func TestTokensArePaced(t *testing.T) {
	for _, tc := range []struct {
		perSecond int
		latency   time.Duration // of the log
		records   int           // of the tokens of ten seconds
	}{
		{perSecond: 10, records: 100},
		{perSecond: 16, records: 160},
		{perSecond: 20, records: 168},
		{perSecond: 50, records: 168},
		{perSecond: 50, latency: 7 * time.Millisecond, records: 168},
		{perSecond: 150, records: 168},
		{perSecond: 1000, records: 168},
		{perSecond: 1000, latency: 250 * time.Millisecond, records: 41},
	} {
		t.Run(fmt.Sprintf("%d tokens/s, latency %s", tc.perSecond, tc.latency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				l.fault = always(fault{delay: tc.latency})
				begin := time.Now()
				gap := time.Second / time.Duration(tc.perSecond)
				var want strings.Builder
				for i := range 10 * tc.perSecond {
					token := fmt.Sprintf("<%d>", i)
					want.WriteString(token)
					emitAll(t, r, text(token))
					time.Sleep(gap)
				}
				time.Sleep(testPace + 2*tc.latency)
				synctest.Wait()
				texts := l.textsSince(begin)
				var all strings.Builder
				for i, rec := range texts {
					all.WriteString(rec.text)
					sent := rec.at - tc.latency
					var oldest int
					if _, err := fmt.Sscanf(rec.text, "<%d>", &oldest); err != nil {
						t.Fatal(err)
					}
					waited := sent - time.Duration(oldest)*gap
					if i > 0 && sent-(texts[i-1].at-tc.latency) < testPace {
						t.Errorf("a record %s after the one before", sent-(texts[i-1].at-tc.latency))
					}
					if waited > max(testPace, tc.latency) || waited > 0 && (i == 0 || gap >= testPace) {
						t.Errorf("token %d waited %s", oldest, waited)
					}
				}
				if all.String() != want.String() {
					t.Error("the text is not that of the model")
				}
				if len(texts) < tc.records-1 || len(texts) > tc.records {
					t.Errorf("%d records, want %d", len(texts), tc.records)
				}
			})
		})
	}
}

// step is something that a program does after a time.
type paceStep struct {
	after time.Duration
	what  string
}

// TestPaceEqualsModel compares the records of random programs, and when they are stored, with those of a plain model of the rule.
func TestPaceEqualsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) paceStep {
			return paceStep{
				after: time.Duration(rapid.SampledFrom([]int{1, 3, 20, 50, 59, 61, 130}).Draw(t, "after")) * time.Millisecond,
				what:  rapid.SampledFrom([]string{"say", "say", "say", "say", "think", "argue", "other call", "next step", "custom", "write", "write custom", "flush", "long", "long"}).Draw(t, "what"),
			}
		}), 1, 60).Draw(rt, "steps")
		var got, want []storedText
		synctest.Test(t, func(t *testing.T) { got, want = runPaced(t, steps) })
		if !slices.Equal(got, want) {
			rt.Fatalf("the log has\n%v, want\n%v", got, want)
		}
	})
}

//tailrace:bubble
func runPaced(t *testing.T, steps []paceStep) (got, want []storedText) {
	t.Helper()
	const pace, maxDelta = testPace + time.Nanosecond, 20 // no delta is due when a step is done
	l := newFakeLog(t, testSession)
	r := startOn(t, l, Config{Pace: pace, MaxDelta: maxDelta})
	begin := time.Now()
	m := paceModel{pace: pace, maxDelta: maxDelta}
	for i, s := range steps {
		time.Sleep(s.after)
		synctest.Wait()
		now := time.Since(begin)
		m.advance(now)
		name := fmt.Sprintf("<%d>", i)
		if s.what == "long" {
			name += "1234567"
		}
		c := map[string]chunk.Chunk{
			"think":      {Step: 1, Body: chunk.Thinking{Content: name}},
			"argue":      {Step: 1, Body: chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: name}},
			"other call": {Step: 1, Body: chunk.ToolArgStreamDelta{ToolCallID: "c2", Delta: name}},
			"next step":  {Step: 2, Body: chunk.TextDelta{Delta: name}},
			"custom":     numbered(i),
		}[strings.TrimPrefix(s.what, "write ")]
		block := s.what
		if c.Body == nil {
			c, block = text(name), "say"
		}
		var err error
		switch s.what {
		case "flush":
			_, err = r.Flush(t.Context())
			m.store(now)
		case "write", "write custom":
			_, err = r.Write(t.Context(), c)
		default:
			err = r.Emit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
		switch s.what {
		case "flush":
		case "custom", "write custom":
			m.store(now)
			m.pending, m.block = "custom", ""
			m.store(now)
		default:
			m.delta(now, block, name, s.what == "write")
		}
		synctest.Wait()
	}
	time.Sleep(time.Second)
	m.advance(time.Since(begin))
	return l.textsSince(begin), m.records
}

// paceModel is the rule, for a log without latency.
type paceModel struct {
	pace     time.Duration
	maxDelta int

	records []storedText
	block   string // of the last record, or of pending
	pending string // text that waits
}

func (m *paceModel) last() time.Duration {
	if len(m.records) == 0 {
		return 0
	}
	return m.records[len(m.records)-1].at
}

// advance stores what is due until now.
func (m *paceModel) advance(now time.Duration) {
	if due := m.last() + m.pace; due <= now {
		m.store(due)
	}
}

func (m *paceModel) store(at time.Duration) {
	if m.pending != "" {
		m.records, m.pending = append(m.records, storedText{at: at, text: m.pending}), ""
	}
}

func (m *paceModel) delta(now time.Duration, block, text string, urgent bool) {
	first := block != m.block
	if first || len(m.pending)+len(text) > m.maxDelta {
		m.store(now)
	}
	m.block, m.pending = block, m.pending+text
	if first || urgent || len(m.pending) >= m.maxDelta || now-m.last() >= m.pace {
		m.store(now)
	}
}

// A delta is due exactly when the pace has passed since the record before it.
func TestADeltaIsDueAfterThePace(t *testing.T) {
	q := queue{pace: testPace, maxDelta: 4 << 10}
	at := time.Now()
	delta := func() *item { return newDelta(text("a"), "a") }
	for i, tc := range []struct {
		after, wait time.Duration
	}{{0, 0}, {testPace - 1, 1}, {testPace, 0}, {0, testPace}, {time.Hour, 0}} {
		at = at.Add(tc.after)
		if q.waiting() == 0 {
			q.push(delta())
		}
		if it, wait := q.take(at); wait != tc.wait || (it == nil) != (wait > 0) {
			t.Errorf("%d: item %v, wait %s, want %s", i, it, wait, tc.wait)
		}
	}
}

// Two blocks in turn do not merge: each delta begins a block, and is stored at once and in order.
func TestBlocksInTurnAreNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		begin := time.Now()
		var want []storedText
		for i := range 20 {
			name := fmt.Sprint(i)
			c := text(name)
			if i%2 == 1 {
				c.Body = chunk.Thinking{Content: name}
			}
			want = append(want, storedText{at: time.Since(begin), text: name})
			emitAll(t, r, c)
			time.Sleep(time.Millisecond)
		}
		if got := l.textsSince(begin); !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
	})
}

// With Off, and with a text of the size of MaxDelta, each record is stored at once: a burst waits for the acknowledgements alone.
func TestABurstIsStoredAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg   Config
		token string
	}{
		"speech":      {Config{Pace: Off}, "word "},
		"4 KiB":       {Config{}, strings.Repeat("x", 4<<10)},
		"over 4 KiB":  {Config{}, strings.Repeat("x", 5000)},
		"several KiB": {Config{}, strings.Repeat("x", 2<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, tc.cfg)
				begin := time.Now()
				const tokens = 100
				for range tokens {
					emitAll(t, r, text(tc.token), text(tc.token))
					synctest.Wait()
				}
				if waited := time.Since(begin); waited > 0 {
					t.Errorf("it took %s", waited)
				}
				if got, want := len(strings.Join(l.summary(), "")), 2*tokens*len(tc.token); want-got > 4<<10 {
					t.Errorf("%d bytes are stored, want the %d without the last 4 KiB at most", got, want)
				}
			})
		})
	}
}

// The log refuses a record while a delta waits behind it: the next call returns that, once, and the delta is stored at its time.
func TestARefusedRecordBeforeADeltaThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.fault = func(n int, _ outgoing) fault {
			if n > 2 {
				return fault{}
			}
			return fault{delay: 30 * time.Millisecond, before: &jetstream.APIError{ErrorCode: codeTooLarge}}
		}
		begin := time.Now()
		emitAll(t, r, text("a"))
		synctest.Wait()
		emitAll(t, r, text("b"))
		time.Sleep(40 * time.Millisecond)
		if err := r.Emit(t.Context(), text("c")); !errors.Is(err, chunk.ErrNotStored) || !strings.Contains(err.Error(), "queued chunk:") {
			t.Fatalf("err = %v, want that one is not stored", err)
		}
		emitAll(t, r, text("d"))
		time.Sleep(testPace)
		if got, want := l.textsSince(begin), []storedText{{testPace, "bd"}}; !slices.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}

// The server stops accepting records while a delta waits: the delta fails with the record before it, and both are reported.
func TestADeltaThatWaitsBehindAClosedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{RetryTimeout: 20 * time.Millisecond})
		l.fault = always(fault{before: jsclient.ErrNotConnected})
		emitAll(t, r, text("a"))
		synctest.Wait()
		emitAll(t, r, text("b"), text("c"))
		time.Sleep(time.Second)
		if err := r.End(t.Context(), nil); !errors.Is(err, chunk.ErrNotStored) || !strings.Contains(err.Error(), "2 queued chunks") {
			t.Fatalf("err = %v, want that two are not stored: b and c are one record", err)
		}
		l.mustHave()
	})
}

// Another writer takes over while a delta waits: it is not stored, and no call of the run returns success.
func TestATakeoverWhileADeltaWaits(t *testing.T) {
	for name, call := range map[string]func(r *Run) error{
		"Emit": func(r *Run) error {
			time.Sleep(testPace)
			synctest.Wait()
			return r.Emit(context.Background(), text("c"))
		},
		"Write": func(r *Run) error { _, err := r.Write(context.Background(), text("c")); return err },
		"Flush": func(r *Run) error { _, err := r.Flush(context.Background()); return err },
		"End":   func(r *Run) error { return r.End(context.Background(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				emitAll(t, r, text("a"))
				synctest.Wait()
				emitAll(t, r, text("b"))
				l.takeOver()
				if err := call(r); !errors.Is(err, chunk.ErrFenced) {
					t.Errorf("err = %v, want fenced", err)
				}
				l.mustHave("a")
			})
		})
	}
}

// A Flush or a Write that stops waiting does not put a delta back to its pace, and loses nothing.
func TestACancelledCallWhileADeltaWaits(t *testing.T) {
	for want, call := range map[string]func(ctx context.Context, r *Run) error{
		"a b":  func(ctx context.Context, r *Run) error { _, err := r.Flush(ctx); return err },
		"a bc": func(ctx context.Context, r *Run) error { _, err := r.Write(ctx, text("c")); return err },
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{Pace: time.Hour})
				emitAll(t, r, text("a"))
				synctest.Wait()
				emitAll(t, r, text("b"))
				l.fault = always(fault{delay: time.Second})
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if err := call(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("err = %v, want the deadline", err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				l.mustHave(strings.Fields(want)...)
			})
		})
	}
}

// A delta that waits has one goroutine and one timer, and both end with it and with Close.
func TestAPumpThatWaitsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		for range 100 {
			emitAll(t, r, text("a"))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(testPace)
		synctest.Wait()
		r.mu.Lock()
		if r.running || r.pacing || r.queue.waiting() != 0 {
			t.Error("the pump runs without a record")
		}
		r.mu.Unlock()
		emitAll(t, r, text("b"))
		emitAll(t, r, text("c"))
		begin := time.Now()
		if err := r.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("err = %v, want that a chunk was dropped", err)
		}
		if time.Since(begin) > 0 || r.running || r.pacing {
			t.Errorf("Close waited %s", time.Since(begin))
		}
	})
}

// On a server: the first token of a run, and of a writer that continues it, does not wait, and a fast model has a record in the pace at most.
func TestPaceOnAServer(t *testing.T) {
	p := local(t)
	stored := func(want string) {
		t.Helper()
		natstest.Eventually(t, want, func(ctx context.Context) error {
			recs, err := p.read(ctx, testSession)
			if err == nil && textOf(t, recs) != want {
				err = fmt.Errorf("the log has %q, want %q", textOf(t, recs), want)
			}
			return err
		})
	}
	producer := p.producer(t, Config{Pace: time.Hour})
	run := mustStart(t, producer, testSession)
	emitAll(t, run, text("a"))
	stored("a")
	emitAll(t, run, text("b"))
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	head, err := producer.Head(t.Context(), testSession)
	if err != nil {
		t.Fatal(err)
	}
	next, err := producer.Continue(t.Context(), head, run.ID())
	if err != nil {
		t.Fatal(err)
	}
	emitAll(t, next, text("c"))
	stored("abc")
	if _, err := next.Write(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}

	fast := chunk.RootSession("acme", "fast")
	r := mustStart(t, p.producer(t, Config{Pace: 20 * time.Millisecond}), fast)
	var want strings.Builder
	begin := time.Now()
	for n := 0; time.Since(begin) < 300*time.Millisecond; n++ {
		token := fmt.Sprint(n % 10)
		want.WriteString(token)
		emitAll(t, r, text(token))
		<-time.After(100 * time.Microsecond)
	}
	if err := r.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	most := int(time.Since(begin)/(20*time.Millisecond)) + 2 // the first, and what End ends the wait of
	recs := p.log(t, fast)
	if got := len(recs) - 2; got > most || textOf(t, recs) != want.String() {
		t.Errorf("%d records of text, want %d at most, with the whole text", got, most)
	}
}

func textOf(t *testing.T, recs []chunk.Record) string {
	t.Helper()
	var all strings.Builder
	for _, rec := range recs {
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := deltaText(c.Body); ok {
			all.WriteString(s)
		}
	}
	return all.String()
}

// Many goroutines emit deltas of one block at the pace while others flush: each text is there once, and a Flush that returns has stored all before it.
func TestFlushesAmongPacedDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.fault = always(fault{delay: 2 * time.Millisecond})
		r := startOn(t, l, Config{})
		var emitted atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 500 {
				if err := r.Emit(t.Context(), text("x")); err != nil {
					t.Error(err)
				}
				emitted.Add(1)
				time.Sleep(time.Millisecond)
			}
		}()
		for range 40 {
			before := emitted.Load()
			if _, err := r.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(strings.Join(l.summary(), "")); int64(n) < before {
				t.Errorf("a Flush after %d tokens returned when %d were stored", before, n)
			}
			time.Sleep(11 * time.Millisecond)
		}
		<-done
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.summary(), ""); got != strings.Repeat("x", 500)+"stream_end" {
			t.Errorf("the log has %d bytes, want 500 tokens and the end", len(got))
		}
	})
}
