package jssnapshots

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
)

// openSmall opens a store whose values have at most 64 KiB, so that small sessions need objects.
func openSmall(t *testing.T, js jetstream.JetStream) *Store {
	t.Helper()
	streamtest.Ensure(t, js, topology.Config{MaxSnapshot: 64 << 10})
	st, err := New(js, Config{WriteGrace: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// large returns a session whose head is too large for a value.
type large struct {
	*storetest.Log

	run int64
}

func newLarge(t *testing.T) *large {
	t.Helper()
	l := &large{Log: storetest.NewLog()}
	l.start(t)
	for range 5 {
		l.emit(t, strings.Repeat("x", 30<<10))
	}
	return l
}

func (l *large) start(t *testing.T) {
	t.Helper()
	l.run++
	l.Append(t, s1, 0, chunk.RunStarted{RunID: fmt.Sprint(l.run), Epoch: l.run, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}})
}

func (l *large) emit(t *testing.T, text string) {
	t.Helper()
	l.Append(t, s1, 1, chunk.TextDelta{Delta: text})
}

func (l *large) end(t *testing.T) {
	t.Helper()
	l.Append(t, s1, 1, chunk.StreamEnd{StreamID: "s1"})
}

func (l *large) fold(t *testing.T) fold.Snapshot {
	t.Helper()
	return storetest.Fold(t, l.Log, s1)
}

func mustSave(t *testing.T, st *Store, snap fold.Snapshot, after projector.Revision) projector.Revision {
	t.Helper()
	r, err := st.Save(t.Context(), snap, after)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// held returns the content of the two buckets: the number of keys by kind, and the objects.
func held(t *testing.T, js jetstream.JetStream) (keys map[string]int, objects []string) {
	t.Helper()
	keys = make(map[string]int)
	for _, name := range []string{"KV_TR_SNAPSHOTS", "OBJ_TR_OBJECTS"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		for subject := range info.State.Subjects {
			if object, ok := strings.CutPrefix(subject, "$O.TR_OBJECTS.C."); ok {
				objects = append(objects, object)
			} else if key, ok := strings.CutPrefix(subject, "$KV.TR_SNAPSHOTS."); ok {
				kind, _, _ := strings.Cut(key, ".")
				keys[kind]++
			}
		}
	}
	slices.Sort(objects)
	return keys, objects
}

func wantObjects(t *testing.T, js jetstream.JetStream, heads, messages int) {
	t.Helper()
	keys, objects := held(t, js)
	got := map[string]int{}
	for _, object := range objects {
		got[object[:1]]++
	}
	if got["h"] != heads || got["m"] != messages || keys["o"] != heads+messages {
		t.Errorf("objects %v with %d notes, want %d of heads and %d of messages", objects, keys["o"], heads, messages)
	}
}

// A large head is stored as one object at a time, a large message as one object as long as the session exists, and a small head as none. The client library can
// read the objects.
func TestLargeValuesAreObjects(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := openSmall(t, js)
	log := newLarge(t)
	r := mustSave(t, st, log.fold(t), 0)
	wantObjects(t, js, 1, 0)
	log.emit(t, "more")
	r = mustSave(t, st, log.fold(t), r)
	wantObjects(t, js, 1, 0)
	bucket, err := js.ObjectStore(t.Context(), "TR_OBJECTS")
	if err != nil {
		t.Fatal(err)
	}
	list, err := bucket.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("the library lists %v, %v", list, err)
	}
	if data, err := bucket.GetBytes(t.Context(), list[0].Name); err != nil || !bytes.Equal(data, log.fold(t).AppendHead(nil)) {
		t.Errorf("the library reads %d bytes, %v", len(data), err)
	}
	log.end(t)
	log.start(t)
	r = mustSave(t, st, log.fold(t), r)
	wantObjects(t, js, 0, 1)
	// A save that is repeated writes the same message, and leaves no objects.
	mustSave(t, st, log.fold(t), r)
	wantObjects(t, js, 0, 1)
	storetest.Equal(t, "in the end", storetest.Stored(t, st, s1), log.fold(t))
}

// A process crashes at each step of a save; the next save or the deletion removes the leftovers, and objects that a head refers to stay.
func TestCrashWithObjects(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := openSmall(t, js)
	log := newLarge(t)
	r := mustSave(t, st, log.fold(t), 0)
	b, err := st.open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	die := func() {
		t.Helper()
		log.emit(t, "more")
		if _, err := st.spill(t.Context(), b, s1, headObject+"-"+rand.Text(), log.fold(t).AppendHead(nil)); err != nil {
			t.Fatal(err)
		}
		// And before the first piece of data.
		note, err := names.SnapshotObjectKey(s1, "h-DIED")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.put(t.Context(), b, note, write{}); err != nil {
			t.Fatal(err)
		}
	}
	die()
	if _, _, err := st.Load(t.Context(), s1); err != nil {
		t.Fatal(err)
	}
	r = mustSave(t, st, log.fold(t), r)
	wantObjects(t, js, 1, 0)
	storetest.Equal(t, "after a crash", storetest.Stored(t, st, s1), log.fold(t))

	// A late cleanup, with an old head, removes nothing that is referenced.
	log.emit(t, "more")
	old := r
	r = mustSave(t, st, log.fold(t), r)
	if _, err := st.collect(t.Context(), b, s1, garbage{before: sequence(old)}); err != nil {
		t.Fatal(err)
	}
	storetest.Equal(t, "after a late collection", storetest.Stored(t, st, s1), log.fold(t))

	die()
	tombstone := fold.NewTombstone(s1, log.fold(t).Position, 9)
	r = mustSave(t, st, tombstone, r)
	if found, err := st.DeleteData(t.Context(), tombstone, r, r, true); err != nil || !found {
		t.Errorf("clear: %v, %v", found, err)
	}
	wantObjects(t, js, 0, 0)
}

// Heads are replaced and their objects removed during reads: every read returns a head.
func TestReadersOfLargeHeads(t *testing.T) {
	srv := natstest.Start(t)
	st := openSmall(t, srv.JetStream(t))
	other := openSmall(t, srv.JetStream(t))
	log := newLarge(t)
	r := mustSave(t, st, log.fold(t), 0)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for last := chunk.Ordinal(0); ; {
				select {
				case <-done:
					return
				default:
				}
				head, _, err := other.Load(t.Context(), s1)
				if err != nil || head.Position.Ordinal < last {
					t.Errorf("at %d after %d: %v", head.Position.Ordinal, last, err)
					return
				}
				last = head.Position.Ordinal
			}
		})
	}
	for range 30 {
		log.emit(t, "more")
		r = mustSave(t, st, log.fold(t), r)
	}
	close(done)
	readers.Wait()
	wantObjects(t, st.js, 1, 0)
}

// The bucket of objects is lost: heads and messages in it are reported as corrupt without a wait, and can be written again.
func TestLostObjects(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := openSmall(t, js)
	log := newLarge(t)
	log.end(t)
	log.start(t)
	for range 5 {
		log.emit(t, strings.Repeat("y", 30<<10))
	}
	mustSave(t, st, log.fold(t), 0)
	wantObjects(t, js, 1, 1)
	stream, err := js.Stream(t.Context(), "OBJ_TR_OBJECTS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, r, err := st.Load(t.Context(), s1)
	if !errors.Is(err, projector.ErrCorrupt) {
		t.Fatalf("load: %v, want ErrDamaged", err)
	}
	if _, err := st.Messages(t.Context(), storetest.Trimmed(log.fold(t))); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("messages: %v, want ErrInconsistent", err)
	}
	mustSave(t, st, log.fold(t), r)
	storetest.Equal(t, "written again", storetest.Stored(t, st, s1), log.fold(t))
}

// A slow projector saves a session that was deleted meanwhile: the save is rejected, leaves no data, and does not damage the session that has started again.
func TestLateSaveOfADeletedSession(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := openSmall(t, js)
	log := newLarge(t)
	r := mustSave(t, st, log.fold(t), 0)
	log.end(t)
	log.start(t)
	late := log.fold(t)

	tombstone := fold.NewTombstone(s1, chunk.Position{Seq: 100, Ordinal: 100}, 9)
	deleted := mustSave(t, st, tombstone, r)
	if _, err := st.DeleteData(t.Context(), tombstone, deleted, deleted, true); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Save(t.Context(), late, r); !errors.Is(err, projector.ErrConflict) {
		t.Errorf("a late save: %v, want ErrConflict", err)
	}
	if keys, objects := held(t, js); keys["m"] != 0 || keys["o"] != 0 || len(objects) != 0 || keys["h"] != 1 {
		t.Errorf("left: %v, %v", keys, objects)
	}

	second := storetest.NewLog()
	storetest.NewSessionGenerator(second, s1, 9).Write(t, 100)
	_, now, err := st.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, st, storetest.Fold(t, second, s1), now)
	if _, err := st.Save(t.Context(), late, r); !errors.Is(err, projector.ErrConflict) {
		t.Errorf("a late save over a new session: %v, want ErrConflict", err)
	}
	storetest.Equal(t, "the new one", storetest.Stored(t, st, s1), storetest.Fold(t, second, s1))
}

// A tombstone without remaining data expires; one with data is listed, as are old heads.
func TestExpiredHeadsAreListed(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := openSmall(t, js)
	var all []chunk.Session
	var last chunk.Session
	for i := range 7 {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", i))
		log := storetest.NewLog()
		storetest.NewSessionGenerator(log, s, 1).Write(t, 20)
		r := mustSave(t, st, storetest.Fold(t, log, s), 0)
		tombstone := fold.NewTombstone(s, chunk.Position{Seq: 1, Ordinal: 1}, 1)
		switch i {
		case 2: // deleted in part
			mustSave(t, st, tombstone, r)
		case 4:
			r = mustSave(t, st, tombstone, r)
			for _, want := range []bool{true, false} {
				if found, err := st.DeleteData(t.Context(), tombstone, r, r, true); err != nil || found != want {
					t.Errorf("clear: %v, %v, want %v", found, err, want)
				}
				_, r, _ = st.Load(t.Context(), s)
			}
			continue
		}
		all, last = append(all, s), s
	}
	_, r, err := st.Load(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	b, err := st.open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.stream.GetMsg(t.Context(), sequence(r))
	if err != nil {
		t.Fatal(err)
	}
	var got []chunk.Session
	for place := uint64(0); ; {
		expired, next, err := st.HeadsSavedBefore(t.Context(), m.Time, 2, place)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range expired {
			got = append(got, a.Session)
			if want := a.Session.ID == "s2"; a.Deleted != want {
				t.Errorf("%s: deleted %v", a.Session, a.Deleted)
			}
		}
		if place = next; place == 0 {
			break
		}
	}
	if !slices.Equal(got, all[:len(all)-1]) {
		t.Errorf("expired %v, want %v", got, all[:len(all)-1])
	}
	remains, err := st.StoredSessions(t.Context(), chunk.RootSession("acme", "s4"))
	if err != nil || !slices.Equal(remains, []chunk.Session{chunk.RootSession("acme", "s4")}) {
		t.Errorf("remains: %v, %v", remains, err)
	}
	if remains, err = st.StoredSessions(context.WithoutCancel(t.Context()), chunk.RootSession("acme", "missing")); err != nil || len(remains) != 0 {
		t.Errorf("remains of a missing session: %v, %v", remains, err)
	}
}
