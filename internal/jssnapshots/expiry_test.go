package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/producers"
)

func TestExpiryAtAnyPoint(t *testing.T) { expireAtAnyPoint(t, newEnv(t), 24) }

func TestExpiryAtAnyPointOnReplicas(t *testing.T) { expireAtAnyPoint(t, newReplicated(t).env, 12) }

// The server expires the records itself, by the maximum age of the stream.
func TestRecordsExpireByAge(t *testing.T) {
	w := newEnv(t)
	w.project(SourceConfig{})
	p, err := producers.New(w.js, producers.Config{Positions: NewPositions(w.js, w.layout)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	e := &expiring{env: w, t: t, rng: rand.New(rand.NewPCG(1, 1)), session: s1, knowing: true}
	e.write(p, 30)
	e.checkStored()
	before := e.last()
	age := func(d time.Duration) {
		t.Helper()
		s, err := w.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.MaxAge, cfg.Duplicates = d, min(cfg.Duplicates, d)
		if _, err := w.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	age(100 * time.Millisecond)
	natstest.Eventually(t, "the records to expire", func(ctx context.Context) error {
		if _, err := w.log.Last(ctx, s1); !errors.Is(err, chunk.ErrUnknownSession) {
			return fmt.Errorf("the last record: %w", err)
		}
		return nil
	})
	age(time.Hour)
	e.run = nil
	e.write(p, 40)
	if first := e.available()[0]; first.Ordinal != before.Ordinal+1 {
		t.Errorf("the first record after the expiry is %d, want %d", first.Ordinal, before.Ordinal+1)
	}
	e.checkStored()
	want := make([]int, e.words)
	for n := range want {
		want[n] = n
	}
	storetest.CheckWords(t, "stored", storetest.Words(storetest.Stored(t, w.store, s1)), want)
}

// expireAtAnyPoint lets the records of sessions expire up to a random point, in the middle of a run and after it, without a projector, before it has saved
// them, and after it. The writers use the zero producers.Config, or are of a version that knows nothing of a session without records. Every reader gets
// what the log and the snapshots have, each word once and in order: snapshots, the projector, and a reader that was attached all the time, which may get
// an error instead of records, and nothing else.
func expireAtAnyPoint(t *testing.T, w *env, rounds int) {
	t.Helper()
	seed := seedtest.Seed(t)
	var all []*expiring
	for n := range rounds {
		e := &expiring{env: w, t: t, rng: rand.New(rand.NewPCG(seed, uint64(n))), session: chunk.RootSession("acme", fmt.Sprintf("s%d", n))}
		all = append(all, e)
		if n == rounds/2 {
			w.project(SourceConfig{})
			for _, e := range all[:n] {
				e.checkStored()
			}
			continue
		}
		e.knowing = n%3 > 0
		e.round(n > rounds/2)
		if t.Failed() {
			t.Fatalf("round %d, the writer knows the snapshot: %t; %s", n, e.knowing, e.story)
		}
	}
	for _, e := range all {
		e.checkStored()
	}
}

// expiring is one session.
type expiring struct {
	*env

	t       *testing.T
	rng     *rand.Rand
	session chunk.Session
	knowing bool // writers use the zero producers.Config
	words   int
	run     *producers.Run
	story   []string
}

func (e *expiring) round(projected bool) {
	e.t.Helper()
	cfg := producers.Config{Positions: NewPositions(e.js, e.layout)}
	if !e.knowing {
		cfg.Positions = producers.NoPositions
	}
	p, err := producers.New(e.js, cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = p.Close() }() // runs that lost their records end with an error
	e.write(p, 1+e.rng.IntN(30))
	for range 3 {
		if projected && e.rng.IntN(2) == 0 {
			e.checkStored()
		}
		position, epoch, _, err := e.reader.StoredPosition(e.t.Context(), e.session)
		if err != nil {
			e.t.Fatal(err)
		}
		last := e.last()
		follower := e.follow(last)
		empty := e.expire()
		from := e.words
		started := e.write(p, 1+e.rng.IntN(40))
		stored, _, _, _ := e.reader.StoredPosition(e.t.Context(), e.session)
		if want := chunk.EventID(epoch+1, position.Ordinal+1); empty && e.knowing && stored == position && started != want {
			e.t.Errorf("the run began with the record %s, want %s", started, want)
		}
		e.check(last, from, follower)
	}
}

// write writes words to the run that is open, or to a new one, and returns the id of its first record.
func (e *expiring) write(p *producers.Producer, n int) (started string) {
	e.t.Helper()
	for range n {
		word := chunk.Chunk{Step: 1, Body: chunk.TextDelta{Delta: storetest.Word(e.words)}}
		err := chunk.ErrFenced
		if e.run != nil {
			_, err = e.run.Write(e.t.Context(), word)
		}
		if errors.Is(err, chunk.ErrFenced) { // no run, or all its records have expired
			if id := e.start(p); started == "" {
				started = id
			}
			_, err = e.run.Write(e.t.Context(), word)
		}
		if err != nil {
			e.t.Fatal(err)
		}
		e.words++
		if e.rng.IntN(12) == 0 {
			if err := e.run.End(e.t.Context(), nil); err != nil {
				e.t.Fatal(err)
			}
			e.run = nil
		}
	}
	e.story = append(e.story, fmt.Sprintf("wrote up to %d at %+v", e.words, e.last()))
	return started
}

func (e *expiring) start(p *producers.Producer) string {
	e.t.Helper()
	run, err := p.Start(e.t.Context(), e.session, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		e.t.Fatal(err)
	}
	e.run = run
	return chunk.EventID(run.Epoch(), run.Position().Ordinal)
}

// last returns the position of the last record.
func (e *expiring) last() chunk.Position {
	e.t.Helper()
	rec, err := e.log.Last(e.t.Context(), e.session)
	if err != nil {
		e.t.Fatal(err)
	}
	return rec.Position()
}

// expire removes the records up to a random one, often all, and reports whether none is left.
func (e *expiring) expire() (empty bool) {
	e.t.Helper()
	left := e.available()
	n := e.rng.IntN(len(left))
	if e.rng.IntN(2) == 0 {
		n = len(left) - 1
	}
	// Snapshots know to the millisecond when a session began: records of a session do not expire in the millisecond in which it begins.
	natstest.Eventually(e.t, "the next millisecond", func(context.Context) error {
		if stored := left[n].StoredAt; time.Now().UnixMilli() <= stored.UnixMilli() {
			return fmt.Errorf("it is %v, the record was stored at %v", time.Now(), stored)
		}
		return nil
	})
	subject, err := e.layout.Subject(e.session)
	if err != nil {
		e.t.Fatal(err)
	}
	s, err := e.js.Stream(e.t.Context(), stream)
	if err == nil {
		err = s.Purge(e.t.Context(), jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(uint64(left[n].Seq)+1))
	}
	if err != nil {
		e.t.Fatal(err)
	}
	e.story = append(e.story, fmt.Sprintf("expired through %+v", left[n].Position()))
	empty = n == len(left)-1
	if empty && e.rng.IntN(16) > 0 {
		e.run = nil // otherwise the run is fenced, after two seconds
	}
	return empty
}

func (e *expiring) available() (all []chunk.Record) {
	e.t.Helper()
	for rec, err := range e.log.Replay(e.t.Context(), chunk.Range{Session: e.session, FromOldest: true}) {
		if err != nil {
			e.t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// followed is what a reader got that was attached before records expired.
type followed struct {
	records []chunk.Record
	err     error
}

// follow reads what comes after a position, up to the word that check sends.
func (e *expiring) follow(after chunk.Position) func(through int) followed {
	ctx, cancel := context.WithCancel(e.t.Context())
	records, failed := make(chan chunk.Record, 1000), make(chan error, 1)
	go func() {
		for rec, err := range e.log.Follow(ctx, chunk.Range{Session: e.session, After: after, KeepOpen: true}) {
			if err != nil {
				failed <- err
				return
			}
			records <- rec
		}
	}()
	return func(through int) (f followed) {
		defer cancel()
		for {
			select {
			case rec := <-records:
				f.records = append(f.records, rec)
				if words := storetest.WordsOf(f.records[len(f.records)-1:]); len(words) > 0 && words[0] == through {
					return f
				}
			case f.err = <-failed:
				return f
			case <-time.After(20 * time.Second):
				f.err = errors.New("nothing for 20 seconds")
				return f
			}
		}
	}
}

func (e *expiring) check(last chunk.Position, from int, follower func(int) followed) {
	e.t.Helper()
	f := follower(e.words - 1)
	if f.err != nil && !errors.Is(f.err, chunk.ErrTruncated) {
		e.t.Errorf("the reader after %+v: %v", last, f.err)
	}
	var want []int
	for n := from; n < e.words && f.err == nil; n++ {
		want = append(want, n)
	}
	storetest.CheckWords(e.t, "a reader that was attached", storetest.WordsOf(f.records), want)
	snap, err := e.reader.Snapshot(e.t.Context(), e.session)
	if err != nil {
		e.t.Fatalf("snapshot: %v; %s", err, e.story)
	}
	storetest.CheckWords(e.t, "snapshot", storetest.Words(snap), storetest.WordsOf(e.available()))
}

// checkStored waits until a projector has saved everything, and checks that nothing is missing that the log or the snapshot had, and that verify agrees.
func (e *expiring) checkStored() {
	e.t.Helper()
	if e.words == 0 {
		return
	}
	before, err := e.reader.Snapshot(e.t.Context(), e.session)
	if err != nil {
		e.t.Fatal(err)
	}
	last := e.last()
	natstest.Eventually(e.t, "the stored snapshot of "+e.session.ID, func(ctx context.Context) error {
		pos, _, _, err := e.reader.StoredPosition(ctx, e.session)
		if err == nil && pos != last {
			err = fmt.Errorf("it is at %+v, the log at %+v", pos, last)
		}
		return err
	})
	storetest.CheckWords(e.t, "stored", storetest.Words(storetest.Stored(e.t, e.store, e.session)), storetest.Words(before))
	v, err := projector.VerifySnapshot(e.t.Context(), e.store, e.log, e.session)
	if err != nil || v.Finding == projector.Different {
		e.t.Errorf("verify %s: %s, %v: %+v; %s", e.session.ID, v.Finding, err, v.Differences, e.story)
	}
}
