package projector_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// writeWords writes a run with the words w<from>, w<from+1> and so on, one in each record.
func writeWords(t *testing.T, log *storetest.Log, s chunk.Session, from, n int) (records []chunk.Record) {
	t.Helper()
	write := func(step int64, body chunk.Body) { records = append(records, log.Append(t, s, step, body)) }
	write(0, chunk.RunStarted{RunID: fmt.Sprintf("r%d", from), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "continue"}}})
	write(1, chunk.StepStart{})
	for i := range n {
		write(1, chunk.TextDelta{Delta: storetest.Word(from + i)})
	}
	write(1, chunk.StepEnd{})
	write(1, chunk.StreamEnd{StreamID: s.ID})
	return records
}

// wordRange returns the words from a number up to another, without it.
func wordRange(from, to int) (words []int) {
	for i := from; i < to; i++ {
		words = append(words, i)
	}
	return words
}

// TestWriterThatStartsAgain is a session whose records have all expired, and whose next writer does not know that: its ordinals start again at 1. The
// snapshot must have both runs, whether a Runner or a Reader folds the second one, and verify and rebuild must not take the log for the whole session.
func TestWriterThatStartsAgain(t *testing.T) {
	for name, second := range map[string]int{"shorter": 50, "as long": 281, "longer": 566} {
		t.Run(name, func(t *testing.T) {
			log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
			_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
			q.put(writeWords(t, log, s1, 0, 281)...)
			q.drained(t)
			log.Expire(s1, 285)
			log.Restart(s1, 0, 0)
			records := writeWords(t, log, s1, 281, second)
			want := wordRange(0, 281+second)
			check := func(what string, snap fold.Snapshot, err error) {
				t.Helper()
				if got := storetest.Words(snap); err != nil || !slices.Equal(got, want) || snap.Position != records[len(records)-1].Position() {
					t.Errorf("%s: %d words at %+v, %v; want %d at %+v", what, len(got), snap.Position, err, len(want), records[len(records)-1].Position())
				}
			}
			snap, err := projector.NewReader(store, log).Snapshot(t.Context(), s1)
			check("a reader", snap, err)
			expectFinding(t, store, log, projector.Unprovable)
			q.put(records...)
			q.drained(t)
			stop()
			check("a runner", storetest.Stored(t, store, s1), nil)
			expectFinding(t, store, log, projector.Unprovable)
			expectRebuild(t, store, log, projector.Kept)
			check("rebuild", storetest.Stored(t, store, s1), nil)
			if _, err := projector.NewReader(store, log).SnapshotAt(t.Context(), s1, records[10].Seq); !errors.Is(err, chunk.ErrTruncated) {
				t.Errorf("an earlier state: %v, want that the log has lost its beginning", err)
			}
		})
	}
}

// TestCleanupAfterStartingAgain checks that a cleanup that removes an earlier turn, which requires a fold from the start of the log, does not drop what only
// the snapshot has.
func TestCleanupAfterStartingAgain(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(writeWords(t, log, s1, 0, 30)...)
	q.drained(t)
	log.Expire(s1, 34)
	log.Restart(s1, 0, 0)
	q.put(writeWords(t, log, s1, 30, 10)...)
	q.put(writeWords(t, log, s1, 40, 10)...)
	q.put(log.Append(t, s1, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "takeover"}))
	truncation, _ := log.AppendTruncation(t, s1, 0)
	q.put(truncation)
	q.drained(t)
	stop()
	snap := storetest.Stored(t, store, s1)
	if got := storetest.Words(snap); !slices.Equal(got, wordRange(0, 50)) || snap.Faults.Skipped != 1 {
		t.Errorf("words %v, %d records skipped; want all words, and the truncated record skipped", got, snap.Faults.Skipped)
	}
}

// TestThirdRecordFirstAfterStartingAgain delivers the third record of a writer that numbers from 1 first, to a Runner whose head has two records that have
// expired: it follows the head by its ordinal alone. The records before it were dropped.
func TestThirdRecordFirstAfterStartingAgain(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	log.Append(t, s1, 1, chunk.TextDelta{Delta: storetest.Word(0)})
	stored(t, store, log, s1)
	log.Expire(s1, 2)
	log.Restart(s1, 0, 0)
	second := []chunk.Record{log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})}
	for i := range 5 {
		second = append(second, log.Append(t, s1, 1, chunk.TextDelta{Delta: storetest.Word(1 + i)}))
	}
	q.batch = 1
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(second[2])
	q.put(second...)
	q.drained(t)
	stop()
	if got := storetest.Words(storetest.Stored(t, store, s1)); !slices.Equal(got, wordRange(0, 6)) {
		t.Errorf("words %v, want all six", got)
	}
}

// TestRedeliveryAfterStartingAgain checks that a Runner that gets records again that have expired since acknowledges them, and that they change nothing.
func TestRedeliveryAfterStartingAgain(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	first := writeWords(t, log, s1, 0, 30)
	stored(t, store, log, s1)
	log.Expire(s1, 34)
	log.Restart(s1, 0, 0)
	second := writeWords(t, log, s1, 30, 5)
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(second...)
	q.put(first[20:]...)
	q.drained(t)
	stop()
	if got := storetest.Words(storetest.Stored(t, store, s1)); !slices.Equal(got, wordRange(0, 35)) {
		t.Errorf("words %v", got)
	}
}

// TestLateDeliveryAfterStartingAgain delivers a record that has expired to a Runner that continues with the next run: it has the next ordinal, or a later one, because
// the writer of that run knew only the first record, which was saved.
func TestLateDeliveryAfterStartingAgain(t *testing.T) {
	for known, epoch := range map[chunk.Ordinal]chunk.Epoch{1: 1, 0: 0} { // the second writer knows the stored head, or nothing
		for late := 2; late < 12; late++ {
			log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
			first := []chunk.Record{log.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})}
			stored(t, store, log, s1)
			for i := range 12 {
				first = append(first, log.Append(t, s1, 1, chunk.TextDelta{Delta: storetest.Word(i)}))
			}
			log.Expire(s1, 13)
			log.Restart(s1, known, epoch)
			_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
			q.put(writeWords(t, log, s1, 12, 3)...)
			q.drained(t)
			q.put(first[late])
			q.drained(t)
			q.put(writeWords(t, log, s1, 15, 7)...)
			q.drained(t)
			stop()
			if got := storetest.Words(storetest.Stored(t, store, s1)); !slices.Equal(got, wordRange(12, 22)) {
				t.Errorf("the writer knows %d records, record %d is late: words %v", known, late+1, got)
			}
		}
	}
}

// TestAnOrdinalTwiceIsNoRestart checks that a message with the ordinal of an earlier record, which the log still has, changes nothing.
func TestAnOrdinalTwiceIsNoRestart(t *testing.T) {
	log, store, q := storetest.NewLog(), storetest.NewMemory(), newQueue()
	records := writeWords(t, log, s1, 0, 20)
	again := log.Append(t, chunk.RootSession("acme", "other"), 1, chunk.TextDelta{Delta: storetest.Word(99)})
	again.Session, again.Ordinal, again.Epoch = s1, 7, records[0].Epoch
	_, stop := start(t, q, store, log, projector.Config{SaveAfter: time.Millisecond})
	q.put(append(records, again)...)
	q.drained(t)
	stop()
	expectFinding(t, store, log, projector.Same)
}

// TestExpiryAtAnyPoint lets records expire at random points of random sessions, with projectors that lag, and with writers that know the position of the
// session, know it from the stored snapshot, or know nothing. In every fold, nothing that the log or the stored snapshot has may be missing, no word is
// twice or out of order, verify reports no difference, and rebuild loses nothing.
func TestExpiryAtAnyPoint(t *testing.T) {
	seed := seedtest.Seed(t)
	for n := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, n))
		e := expiring{log: storetest.NewLog(), store: storetest.NewMemory(), rng: rng, knows: []string{"all", "snapshot", "nothing"}[n%3]}
		for range 30 {
			e.act(t)
			if !e.check(t) {
				break
			}
			if t.Failed() {
				t.Fatalf("round %d: writer knows %s, log %s", n, e.knows, e.story)
			}
		}
	}
}

type expiring struct {
	log   *storetest.Log
	store *storetest.Memory
	rng   *rand.Rand
	knows string // what a writer knows of a session without records

	run       bool // a run is open
	words     int
	delivered chunk.Seq
	had       []int // the words of the stored snapshot
	story     []string
}

func (e *expiring) act(t *testing.T) {
	t.Helper()
	available := e.log.Records(s1)
	switch k := e.rng.IntN(10); {
	case k < 5 || e.words == 0:
		e.write(t, 1+e.rng.IntN(12), len(available) == 0)
	case k < 7 && len(available) > 0:
		last := available[e.rng.IntN(len(available))]
		if e.rng.IntN(2) == 0 {
			last = available[len(available)-1]
		}
		e.log.ExpireThrough(last.Seq)
		e.story = append(e.story, fmt.Sprintf("expired through %+v", last.Position()))
	default:
		e.project(t, available)
	}
}

// write writes records of a run. A writer whose records have all expired is fenced, so another one starts.
func (e *expiring) write(t *testing.T, n int, empty bool) {
	t.Helper()
	if empty && e.words > 0 {
		switch pos, epoch, _, err := projector.NewReader(e.store, e.log).StoredPosition(t.Context(), s1); {
		case err != nil:
			t.Fatal(err)
		case e.knows == "snapshot":
			e.log.Restart(s1, pos.Ordinal, epoch)
		case e.knows == "nothing":
			e.log.Restart(s1, 0, 0)
		}
		e.run = false
	}
	for range n {
		if !e.run {
			e.log.Append(t, s1, 0, chunk.RunStarted{RunID: fmt.Sprintf("r%d", e.words), Epoch: 1, Mode: "execute"})
		}
		e.run = e.rng.IntN(6) > 0
		if e.run {
			e.log.Append(t, s1, 1, chunk.TextDelta{Delta: storetest.Word(e.words)})
			e.words++
		} else {
			e.log.Append(t, s1, 1, chunk.StreamEnd{StreamID: s1.ID})
		}
	}
	records := e.log.Records(s1)
	e.story = append(e.story, fmt.Sprintf("wrote up to %+v of epoch %d", records[len(records)-1].Position(), records[len(records)-1].Epoch))
}

// project runs a Runner over a part of the records that it has not got, and over some that it has.
func (e *expiring) project(t *testing.T, available []chunk.Record) {
	t.Helper()
	q := newQueue()
	q.batch = 1 + e.rng.IntN(20)
	var batch []chunk.Record
	for _, rec := range available {
		if rec.Seq > e.delivered || e.rng.IntN(5) == 0 {
			batch = append(batch, rec)
		}
	}
	if len(batch) == 0 {
		return
	}
	batch = batch[:1+e.rng.IntN(len(batch))]
	if e.rng.IntN(3) == 0 {
		e.rng.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	}
	_, stop := start(t, q, e.store, e.log, projector.Config{SaveAfter: time.Millisecond})
	q.put(batch...)
	q.drained(t)
	stop()
	for _, rec := range batch {
		e.delivered = max(e.delivered, rec.Seq)
	}
	e.story = append(e.story, fmt.Sprintf("projected %d", len(batch)))
}

// check reports false if the case ends here.
func (e *expiring) check(t *testing.T) bool {
	t.Helper()
	head, _, err := e.store.Load(t.Context(), s1)
	available := e.log.Records(s1)
	if err == nil && len(available) > 0 && e.knows == "nothing" {
		// The one case that cannot be detected: the ordinal at which the log starts happens to be the next one of the snapshot.
		if first := available[0]; first.Seq > head.Position.Seq && first.Ordinal == head.Position.Ordinal+1 && first.Type != chunk.TypeRunStarted {
			return false
		}
	}
	snap, err := projector.NewReader(e.store, e.log).Snapshot(t.Context(), s1)
	if errors.Is(err, chunk.ErrUnknownSession) && len(available) == 0 {
		return true
	}
	if err != nil {
		t.Fatalf("snapshot: %v; %s: %s", err, e.knows, e.story)
	}
	e.checkWords(t, "read", storetest.Words(snap), available)
	if len(available) > 0 && e.knows == "all" && len(storetest.Words(snap)) < e.words && snap.Faults.Lost == 0 {
		t.Errorf("%d of %d words, and no record counted as lost", len(storetest.Words(snap)), e.words)
	}
	if _, _, err := e.store.Load(t.Context(), s1); errors.Is(err, projector.ErrNoSnapshot) {
		return true
	}
	saved := storetest.Stored(t, e.store, s1)
	e.checkWords(t, "stored", storetest.Words(saved), nil)
	e.had = storetest.Words(saved)
	v, err := projector.VerifySnapshot(t.Context(), e.store, e.log, s1)
	if err != nil || v.Finding == projector.Different {
		t.Errorf("verify: %s, %v: %+v", v.Finding, err, v.Differences)
	}
	if e.rng.IntN(8) == 0 {
		if _, err := projector.Rebuild(t.Context(), e.store, e.log, s1); err != nil {
			t.Errorf("rebuild: %v", err)
		}
		e.checkWords(t, "rebuilt", storetest.Words(storetest.Stored(t, e.store, s1)), nil)
	}
	return true
}

// checkWords checks that a snapshot has the words that were stored, and those of the log, each once and in order.
func (e *expiring) checkWords(t *testing.T, what string, got []int, available []chunk.Record) {
	t.Helper()
	storetest.CheckWords(t, what, got, append(slices.Clone(e.had), storetest.WordsOf(available)...))
}
