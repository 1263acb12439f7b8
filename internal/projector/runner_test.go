package projector_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

var s1 = chunk.RootSession("acme", "s1")

// TestRunnerSavesDeliveries checks that deliveries are folded, saved and then acknowledged.
func TestRunnerSavesDeliveries(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	r, _ := start(t, q, store, log, projector.Config{SaveAfter: 5 * time.Millisecond})
	for i := range 20 {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", i))
		q.put(storetest.NewSessionGenerator(log, s, uint64(i)).Write(t, 150)...)
	}
	q.drained(t)
	for i := range 20 {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", i))
		storetest.Equal(t, s.ID, storetest.Stored(t, store, s), storetest.Fold(t, log, s))
	}
	if st := r.Stats(); st.Delivered < 3000 || st.Saved < 20 || st.Conflicts+st.Failures+st.TooLarge != 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestSavePolicy checks that a session is saved at the start, a pause and the end of a run, five seconds after the first record
// that is not saved, or after 200 records, and that no delivery is acknowledged earlier.
func TestSavePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
		begun := log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
		r, stop := start(t, q, store, log, projector.Config{})
		defer stop()
		saved := func(want uint64, unacked int) {
			t.Helper()
			synctest.Wait()
			if got := r.Stats().Saved; got != want || q.unacked() != unacked {
				t.Fatalf("%d saves and %d unacknowledged, want %d and %d", got, q.unacked(), want, unacked)
			}
		}
		time.Sleep(time.Hour)
		q.put(begun)
		saved(1, 0)
		q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"}))
		saved(1, 1)
		time.Sleep(4900 * time.Millisecond)
		q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: "b"}))
		saved(1, 2)
		time.Sleep(101 * time.Millisecond)
		saved(2, 0)
		q.put(log.Append(t, s1, 1, chunk.StepEnd{}))
		saved(2, 1)
		q.put(log.Append(t, s1, 1, chunk.StreamPaused{}))
		saved(3, 0)
		for range 199 {
			q.put(log.Append(t, s1, 2, chunk.TextDelta{Delta: "c"}))
		}
		saved(3, 199)
		q.put(log.Append(t, s1, 2, chunk.TextDelta{Delta: "c"}))
		saved(4, 0)
		q.put(log.Append(t, s1, 2, chunk.TextDelta{Delta: "d"}))
		saved(4, 1)
		stop() // saves all sessions
		saved(5, 0)
	})
}

// TestRunnerReleasesAfterItsLastAck checks that a Runner that ends regularly saves and acknowledges before it releases the Source.
func TestRunnerReleasesAfterItsLastAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
		_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Minute})
		q.put(log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}), log.Append(t, s1, 1, chunk.TextDelta{Delta: "a"}))
		synctest.Wait()
		q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: "b"}))
		synctest.Wait()
		if q.unacked() != 1 {
			t.Fatalf("%d deliveries are unacknowledged before the end, want 1", q.unacked())
		}
		stop()
		if !slices.Equal(q.released, []int{0}) {
			t.Errorf("released with %v unacknowledged deliveries, want once with 0", q.released)
		}
	})
}

// TestRunnerCrash crashes a Runner a hundred times at random steps and checks that it arrives at the same snapshots.
func TestRunnerCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	log, store := storetest.NewLog(), storetest.NewMemory()
	sessions := []chunk.Session{s1, chunk.RootSession("acme", "s2"), s1.Child("c")}
	var generators []*storetest.SessionGenerator
	for i, s := range sessions {
		generators = append(generators, storetest.NewSessionGenerator(log, s, uint64(i+10)))
	}
	q := newQueue()
	q.batch = 7
	for kill := range 100 {
		for _, a := range generators {
			q.put(a.Write(t, 1+rng.IntN(12))...)
			if rng.IntN(2) == 0 {
				log.DeleteRemoved(a.Session)
			}
		}
		crashAt(t, q, store, log, rng.IntN(40), kill)
	}
	store.Fault, q.lose = nil, nil
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.drained(t)
	stop()
	for _, s := range sessions {
		storetest.Equal(t, s.ID, storetest.Stored(t, store, s), storetest.Fold(t, log, s))
	}
}

// crashAt runs a Runner that crashes at the n-th step of its store or the n-th acknowledgement. Later steps of that Runner have
// no effect.
func crashAt(t *testing.T, q *queue, store *storetest.Memory, log *storetest.Log, n, kill int) {
	t.Helper()
	var mu sync.Mutex
	ctx, die := context.WithCancel(t.Context())
	defer die()
	step := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if n--; n < 0 {
			die()
		}
		return n < 0
	}
	dead := errors.New("killed")
	store.Fault = func(string) error {
		if step() {
			return dead
		}
		return nil
	}
	q.lose = step
	r, err := projector.NewRunner(q, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 5, StallTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan struct{})
	go func() { // ends a run that has processed everything
		defer close(idle)
		for ctx.Err() == nil && q.unacked() > 0 {
			q.mu.Lock()
			done := q.idle
			q.mu.Unlock()
			select {
			case <-done:
			case <-ctx.Done():
			}
		}
		die()
	}()
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("kill %d: %v", kill, err)
	}
	<-idle
}

// TestTwoRunners checks that two Runners of the same sessions repeat work but arrive at the same snapshots.
func TestTwoRunners(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	one, two := newQueue(), newQueue()
	r1, _ := start(t, one, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 3})
	r2, _ := start(t, two, store, log, projector.Config{SaveAfter: time.Millisecond, SaveRecords: 3})
	a := storetest.NewSessionGenerator(log, s1, 3)
	for range 40 {
		for _, rec := range a.Write(t, 20) {
			one.put(rec) // a server sends a late record to both
			two.put(rec)
		}
	}
	one.drained(t)
	two.drained(t)
	storetest.Equal(t, "shared", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	if r1.Stats().Failures+r2.Stats().Failures > 0 {
		t.Errorf("failures: %+v, %+v", r1.Stats(), r2.Stats())
	}
}

// TestConflictReloads replaces the stored head: the next save fails, and the Runner loads the new head and folds the log onto
// it.
func TestConflictReloads(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	a := storetest.NewSessionGenerator(log, s1, 4)
	first := a.Write(t, 50)
	r, _ := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(first...)
	q.drained(t)
	// Another writer saves the fold of the log, and later a corrupt head.
	rest := a.Write(t, 50)
	_, revision, err := store.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), storetest.Fold(t, log, s1), revision); err != nil {
		t.Fatal(err)
	}
	q.put(rest...)
	q.drained(t)
	store.CorruptHead(s1, "no head")
	q.put(a.Write(t, 50)...)
	q.drained(t)
	storetest.Equal(t, "after conflicts", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	if r.Stats().Conflicts == 0 {
		t.Error("no conflict counted")
	}
}

// TestAnyOrder delivers records several times in random order.
func TestAnyOrder(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	records := storetest.NewSessionGenerator(log, s1, 5).Write(t, 300)
	records = append(records, records...)
	rand.New(rand.NewPCG(5, 5)).Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	_, _ = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(records...)
	q.drained(t)
	storetest.Equal(t, "shuffled", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
}

// deadLetters implements projector.DeadLetterSink. Its first calls fail.
type deadLetters struct {
	mu       sync.Mutex
	failures int // number of calls that fail
	tries    int
	list     []string
}

func (g *deadLetters) Add(_ context.Context, rec chunk.Record, reason string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tries++; g.tries <= g.failures {
		return errors.New("unavailable")
	}
	g.list = append(g.list, fmt.Sprintf("%d %s", rec.Ordinal, reason))
	return nil
}

// TestInvalidRecordIsSkipped checks that an unreadable record is reported, recorded as a fault and skipped, and that the
// records around it are folded. While it cannot be reported the session waits, but only for a limited number of attempts.
func TestInvalidRecordIsSkipped(t *testing.T) {
	for _, c := range []struct {
		name              string
		failures, letters int
	}{{"available", 0, 6}, {"unavailable for three calls", 3, 6}, {"unavailable", 1 << 30, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, store, q, dead := storetest.NewLog(), storetest.NewMemory(), newQueue(), &deadLetters{failures: c.failures}
				q.put(log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
				for i, poison := range []string{``, `{`, `[]`, `{"type":"text_delta"}`, `{"type":"tool_end","agentId":"s1"}`, "\xff"} {
					q.put(log.AppendRaw(s1, chunk.TypeTextDelta, []byte(poison)))
					q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)}))
				}
				r, stop := start(t, q, store, log, projector.Config{DeadLetter: dead})
				defer stop()
				q.drained(t)
				snap := storetest.Stored(t, store, s1)
				if snap.Faults.Skipped != 6 || len(dead.list) != c.letters || r.Stats().Skipped != 6 {
					t.Errorf("faults %+v, dead letters %q, stats %+v; want 6, %d and 6", snap.Faults, dead.list, r.Stats(), c.letters)
				}
				if page := string(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).AppendJSON(nil)); !strings.Contains(page, `"012345"`) {
					t.Errorf("records missing: %s", page)
				}
			})
		})
	}
}

// TestTooLargeDoesNotBlock checks that a snapshot that the store cannot hold does not stop the session: the stored head stays,
// deliveries are acknowledged, and readers are still exact.
func TestTooLargeDoesNotBlock(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	store.Limit = 3000
	q.put(log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
	r, _ := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.drained(t)
	before := storetest.Stored(t, store, s1)
	q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: strings.Repeat("x", 4000)}))
	q.put(log.Append(t, s1, 1, chunk.TextDelta{Delta: "y"}))
	q.drained(t)
	storetest.Equal(t, "the head before", storetest.Stored(t, store, s1), before)
	if r.Stats().TooLarge == 0 {
		t.Error("not counted")
	}
	snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "read", snap, storetest.Fold(t, log, s1))
}

// TestSessionsAreEvicted checks that the least recently used sessions are saved, evicted and loaded again.
func TestSessionsAreEvicted(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Hour, SaveRecords: 1 << 30, MaxSessions: 3})
	var generators []*storetest.SessionGenerator
	for i := range 12 {
		generators = append(generators, storetest.NewSessionGenerator(log, chunk.RootSession("acme", fmt.Sprintf("s%d", i)), uint64(i)))
	}
	for range 5 {
		for _, a := range generators {
			q.put(a.Write(t, 20)...)
		}
	}
	stop()
	_, stop = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond, MaxSessions: 3})
	q.drained(t)
	stop()
	for _, a := range generators {
		storetest.Equal(t, a.Session.ID, storetest.Stored(t, store, a.Session), storetest.Fold(t, log, a.Session))
	}
}

// TestOutage makes store and log unavailable for a minute. The first and the last delivery stay unacknowledged, so that this
// Runner or another one saves the session later.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
		failures := errors.New("unavailable")
		var mu sync.Mutex
		down := true
		store.Fault = func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return failures
			}
			return nil
		}
		log.Fault = func(chunk.Session) error { return store.Fault("") }
		r, stop := start(t, q, store, log, projector.Config{})
		defer stop()
		q.put(storetest.NewSessionGenerator(log, s1, 6).Write(t, 100)...)
		time.Sleep(time.Minute)
		if q.unacked() != 2 || r.Stats().Saved > 0 || r.Stats().Failures < 3 || r.Stats().Failures > 40 {
			t.Errorf("%d unacknowledged, stats %+v", q.unacked(), r.Stats())
		}
		mu.Lock()
		down = false
		mu.Unlock()
		time.Sleep(11 * time.Second)
		if q.unacked() > 0 {
			t.Errorf("%d still unacknowledged", q.unacked())
		}
		store.Fault, log.Fault = nil, nil
		storetest.Equal(t, "after the outage", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	})
}

func TestConfigNamesTheField(t *testing.T) {
	for _, c := range []struct {
		cfg  projector.Config
		want string
	}{
		{projector.Config{SaveRecords: -1}, "SaveRecords is -1, want at least 1"},
		{projector.Config{SaveAfter: -1}, "SaveAfter is -1ns, want more than 0"},
		{projector.Config{Parallel: -2}, "Parallel is -2, want at least 1"},
	} {
		if _, err := projector.NewRunner(newQueue(), storetest.NewMemory(), storetest.NewLog(), c.cfg); err == nil || err.Error() != c.want {
			t.Errorf("err = %v, want %s", err, c.want)
		}
	}
}

// TestUnsavedIsBounded checks that too many unacknowledged deliveries are saved at once. Otherwise a source that waits for
// acknowledgements and a runner that waits for its timer would block each other.
func TestUnsavedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
		_, stop := start(t, q, store, log, projector.Config{MaxUnsaved: 30, SaveAfter: time.Hour})
		defer stop()
		for i := range 20 {
			s := chunk.RootSession("acme", fmt.Sprintf("s%d", i))
			q.put(log.Append(t, s, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}))
			q.put(log.Append(t, s, 1, chunk.TextDelta{Delta: "a"}))
		}
		synctest.Wait()
		if n := q.unacked(); n > 30 {
			t.Errorf("%d unacknowledged, want at most 30", n)
		}
	})
}

// TestLogRolledBack restores the log from an older copy and continues it with other records: the stored snapshot does not match
// and is refolded.
func TestLogRolledBack(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	write := func(l *storetest.Log, texts ...string) []chunk.Record {
		out := []chunk.Record{l.Append(t, s1, 0, chunk.RunStarted{RunID: "r" + texts[0], Epoch: 1, Mode: "execute"})}
		for _, text := range texts {
			out = append(out, l.Append(t, s1, 1, chunk.TextDelta{Delta: text}))
		}
		return out
	}
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(write(log, "a")...)
	q.put(write(log, "b", "c", "d")...)
	q.drained(t)
	stop()
	older := storetest.NewLog()
	write(older, "a")
	again := write(older, "x")
	again = append(again, write(older, "y")...)
	_, _ = start(t, q, store, older, projector.Config{SaveAfter: time.Millisecond})
	q.put(again...)
	q.drained(t)
	storetest.Equal(t, "refolded", storetest.Stored(t, store, s1), storetest.Fold(t, older, s1))
}

// TestLogRolledBackUnnoticed continues a log that was rolled back with records that have the sequences, ordinals and epochs of
// those that the stored snapshot contains, or fewer, or more; another session may have taken the sequence of its last record.
func TestLogRolledBackUnnoticed(t *testing.T) {
	s2 := chunk.RootSession("t", "other")
	for name, tt := range map[string]struct{ before, after, other int }{
		"as long again":               {5, 5, 0},
		"longer now":                  {5, 8, 0},
		"shorter now":                 {5, 2, 0},
		"the sequence is of another":  {5, 2, 9},
		"as long, at other sequences": {5, 5, 2},
		"its last record is left":     {0, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
			say := func(s chunk.Session, text string, n int) (out []chunk.Record) {
				for range n {
					out = append(out, log.Append(t, s, 1, chunk.TextDelta{Delta: text}))
				}
				return out
			}
			records := append([]chunk.Record{log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})}, say(s1, "kept ", 2)...)
			_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
			q.put(append(records, say(s1, "lost ", tt.before)...)...)
			q.drained(t)
			stop()
			log.RollBack(records[2].Seq)
			say(s2, "other ", tt.other)
			records = append(records, say(s1, "new ", tt.after)...)
			snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Equal(t, "read", snap, storetest.Fold(t, log, s1))
			_, stop = start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
			q.put(records...) // a Source starts again at the first record
			q.drained(t)
			storetest.Equal(t, "refolded", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
			q.put(say(s1, "more ", 1)...)
			q.drained(t)
			storetest.Equal(t, "continued", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
			stop()
		})
	}
}

// TestStallTimeoutIsPerRecord checks that a session is folded that takes longer than StallTimeout in total but not for one
// record.
func TestStallTimeoutIsPerRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
		a := storetest.NewSessionGenerator(log, s1, 31)
		a.WithCleanups = false
		records := a.Write(t, 200)
		r, stop := start(t, q, store, slow{log}, projector.Config{})
		defer stop()
		q.put(records[len(records)-1])
		time.Sleep(5 * time.Minute)
		q.drained(t)
		storetest.Equal(t, "slowly", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
		if n := r.Stats().Failures; n > 0 {
			t.Errorf("%d failures, want 0", n)
		}
	})
}

// slow is a Log that takes a second of the fake clock for each record.
type slow struct{ *storetest.Log }

func (l slow) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		for rec, err := range l.Log.Replay(ctx, of) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				rec, err = chunk.Record{}, ctx.Err()
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// TestNewerHeadStays checks that an older build does not replace a head that only a newer build can read. Readers fold the log
// meanwhile.
func TestNewerHeadStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
		rec := log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
		store.CorruptHead(s1, `{"version":99}`)
		runner, _ := start(t, q, store, log, projector.Config{})
		q.put(rec)
		synctest.Wait()
		if runner.Stats().Failures == 0 {
			t.Error("the runner did not fail")
		}
		if _, _, err := store.Load(t.Context(), s1); !errors.Is(err, fold.ErrNewerVersion) {
			t.Errorf("the head: %v, want the newer one", err)
		}
		if snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1); err != nil || snap.Position != rec.Position() {
			t.Errorf("read: %+v, %v", snap.Position, err)
		}
		store.CorruptHead(s1, `{"version":0}`)
		q.drained(t)
		storetest.Equal(t, "of no version", storetest.Stored(t, store, s1), storetest.Fold(t, log, s1))
	})
}
