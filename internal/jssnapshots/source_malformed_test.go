package jssnapshots

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
)

// concurrentWriter is another program that writes heads without compare-and-set.
type concurrentWriter struct {
	*env

	kv    jetstream.KeyValue
	store *Store
	key   string
	old   []byte // a head of the first records
}

func (w *env) concurrentWriter(s chunk.Session) *concurrentWriter {
	w.tb.Helper()
	js, err := jetstream.New(w.conn())
	if err != nil {
		w.tb.Fatal(err)
	}
	m := &concurrentWriter{env: w}
	if m.store, err = New(js, Config{}); err != nil {
		w.tb.Fatal(err)
	}
	if m.kv, err = js.KeyValue(w.tb.Context(), names.Layout(w.layout).Snapshots()); err != nil {
		w.tb.Fatal(err)
	}
	if m.key, err = names.SnapshotHeadKey(s); err != nil {
		w.tb.Fatal(err)
	}
	return m
}

func (m *concurrentWriter) put(head []byte) {
	m.tb.Helper()
	if _, err := m.kv.Put(m.tb.Context(), m.key, head); err != nil {
		m.tb.Fatal(err)
	}
}

// newer saves the fold of the whole log, as a second projector would.
func (m *concurrentWriter) newer(s chunk.Session) {
	m.tb.Helper()
	for {
		_, revision, err := m.store.Load(m.tb.Context(), s)
		if err != nil && revision == 0 && !errors.Is(err, projector.ErrNoSnapshot) {
			m.tb.Fatal(err)
		}
		_, err = m.store.Save(m.tb.Context(), storetest.Fold(m.tb, m.log, s), revision)
		if err == nil {
			return
		}
		if !errors.Is(err, projector.ErrConflict) {
			m.tb.Fatal(err)
		}
	}
}

// Another writer replaces the head while a projector works: by a newer one, an old one, a malformed one, one of another session, an empty value. A reader gets
// the fold of the log all the time, and after the other writer has ended that is the stored snapshot.
func TestHeadsOfAnotherWriter(t *testing.T) {
	seed := seedtest.Seed(t)
	w, rng := newEnv(t), rand.New(rand.NewPCG(seed, 1))
	a := storetest.NewSessionGenerator(storetest.NewLog(), s1, seed)
	m := w.concurrentWriter(s1)
	p := w.project(SourceConfig{})
	w.copy(a.Write(t, 30))
	w.caughtUp(s1)
	entry, err := m.kv.Get(t.Context(), m.key)
	if err != nil {
		t.Fatal(err)
	}
	m.old = entry.Value()
	replace := []func(){
		func() { m.newer(s1) },
		func() { m.put(m.old) },
		func() { m.put([]byte("\x00garbage")) },
		func() { m.put([]byte(`{"object":"nothing","bytes":3,"sha256":"00"}`)) },
		func() { m.put([]byte(strings.ReplaceAll(string(m.old), s1.ID, "another"))) },
		func() {
			if err := m.kv.Delete(t.Context(), m.key); err != nil {
				t.Fatal(err)
			}
		},
	}
	for round := range 36 {
		w.copy(a.Write(t, 1+rng.IntN(15)))
		which := round % len(replace) // each of them, and then random ones
		if round > 2*len(replace) {
			which = rng.IntN(len(replace))
		}
		replace[which]()
		snap, err := w.reader.Snapshot(t.Context(), s1)
		if err != nil {
			t.Fatalf("round %d, after %d: %v", round, which, err)
		}
		storetest.Equal(t, "while heads are replaced", snap, storetest.Fold(t, w.log, s1))
		if round < 2*len(replace) {
			w.copy(a.Write(t, 1)) // the projector processes each of them
			w.caughtUp(s1)
		}
	}
	w.copy(a.Write(t, 1))
	w.caughtUp(s1)
	w.allAcknowledged()
	if n := p.runner.Stats().Conflicts; n == 0 {
		t.Error("no save of the projector failed")
	}
}

// Another writer never stops: the projector continues with other sessions.
func TestWriterWithoutEnd(t *testing.T) {
	w := newEnv(t)
	a := storetest.NewSessionGenerator(storetest.NewLog(), s1, 31)
	other := storetest.NewSessionGenerator(storetest.NewLog(), chunk.RootSession("acme", "s2"), 32)
	m := w.concurrentWriter(s1)
	w.project(SourceConfig{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if _, err := m.kv.Put(ctx, m.key, []byte("mine")); err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for range 10 {
		w.copy(a.Write(t, 20))
		w.copy(other.Write(t, 20))
		w.caughtUp(other.Session)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.copy(a.Write(t, 1))
	w.caughtUp(s1)
	w.allAcknowledged()
}
