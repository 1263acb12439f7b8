package consumers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// Trees with few and with many sub-agents that write at the same time are read from the beginning, from every cursor, up to every bound, and then live with
// one more sub-agent.
func TestTreesOfAllSizes(t *testing.T) {
	for _, kids := range []int{0, 1, maxMergeSessions - 1, maxMergeSessions, 50} {
		t.Run(fmt.Sprint("sub-agents=", kids), func(t *testing.T) {
			w := newEnv(t, Config{})
			sessions := []chunk.Session{alice}
			for i := range kids {
				sessions = append(sessions, alice.Child(fmt.Sprint("kid", i)))
			}
			var want []chunk.Record
			for range 3 {
				for _, s := range sessions {
					want = append(want, w.say(s, s.ID))
				}
				w.say(chunk.RootSession("acme", "other"), "between")
			}
			got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true}))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, want)
			step := 1 + len(want)/25
			for i := 0; i < len(want); i += step {
				got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, After: chunk.Position{Seq: want[i].Seq}}))
				if err != nil {
					t.Fatalf("after %d: %v", want[i].Seq, err)
				}
				same(t, got, want[i+1:])
				if got, err = collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true, Through: want[i].Seq})); err != nil {
					t.Fatalf("through %d: %v", want[i].Seq, err)
				}
				same(t, got, want[:i+1])
			}
			f := w.followTree(alice, 0)
			same(t, f.get(t, len(want)), want)
			var live []chunk.Record
			for range 2 {
				live = append(live, w.say(alice.Child("new"), "live"), w.say(sessions[kids/2], "live"))
			}
			same(t, f.get(t, len(live)), live)
			f.stop(t)
			w.noConsumers()
		})
	}
}

// listed starts to read a tree and returns after the sessions were listed, so that a test can change the log. attach then attaches the readers.
func (w *env) listed(live bool) (rd *readState, attach func()) {
	w.t.Helper()
	p, err := plan{live: live}.with(chunk.Range{Session: alice, Tree: true})
	if err != nil {
		w.t.Fatal(err)
	}
	rd = &readState{Reader: w.reader, plan: p, chains: make(map[string]*ordinalChecker)}
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	must(rd.name())
	state, sessions, err := rd.list(w.t.Context())
	must(err)
	return rd, func() {
		w.t.Helper()
		must(rd.attachAll(w.t.Context(), sessions, state))
		rd.attached = chunk.Seq(rd.state.Last)
	}
}

// rest reads up to n more records, or to the end.
func (w *env) rest(rd *readState, n int) ([]chunk.Record, error) {
	w.t.Helper()
	var recs []chunk.Record
	for len(recs) < n {
		rec, pending, err := rd.next(background(w.t, 20*time.Second))
		if err == nil {
			recs = append(recs, rec)
			err = rd.closing(w.t.Context(), pending)
		}
		if err != nil {
			return recs, err
		}
	}
	return recs, nil
}

// A sub-agent starts after the sessions were listed. Records that other sessions write later must not be delivered before those of the new sub-agent:
// otherwise the cursor of a client would be after records that the client has not received.
func TestSubAgentStartsAfterTheList(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprint("live=", live), func(t *testing.T) {
			w := newEnv(t, Config{})
			old := alice.Child("old")
			want := append(w.sayAll(alice, 3), w.sayAll(old, 2)...)
			rd, attach := w.listed(live)
			defer rd.close()
			later := []chunk.Record{w.say(alice.Child("new"), "1"), w.say(alice, "2"), w.say(old, "3")}
			attach()
			later = append(later, w.say(alice, "4"), w.say(alice.Child("new"), "5"))
			if !live {
				got, err := w.rest(rd, 100)
				if !errors.Is(err, jsreader.ErrEnd) {
					t.Fatal(err)
				}
				same(t, got, want)
				return
			}
			later = append(later, w.put(alice, 1, chunk.StreamEnd{StreamID: "x"}))
			got, err := w.rest(rd, 100)
			if !errors.Is(err, jsreader.ErrEnd) {
				t.Fatal(err)
			}
			same(t, got, append(want, later...))
		})
	}
}

// The log changes after the sessions were listed and before the first record is read.
func TestBetweenListAndReaders(t *testing.T) {
	setup := func(t *testing.T) (w *env, root, kid []chunk.Record) {
		t.Helper()
		w = newEnv(t, Config{})
		root = w.sayAll(alice, 2)
		kid = w.sayAll(alice.Child("kid"), 4)
		root = append(root, w.sayAll(alice, 2)...)
		return w, root, kid
	}
	t.Run("a sub-agent is purged", func(t *testing.T) {
		w, root, _ := setup(t)
		rd, attach := w.listed(false)
		defer rd.close()
		w.purgeSession(alice.Child("kid"))
		attach()
		got, err := w.rest(rd, 100)
		if !errors.Is(err, jsreader.ErrEnd) {
			t.Fatal(err)
		}
		same(t, got, root)
	})
	t.Run("the beginning of a sub-agent is purged", func(t *testing.T) {
		w, root, kid := setup(t)
		rd, attach := w.listed(false)
		defer rd.close()
		w.remove(kid[0])
		attach()
		got, err := w.rest(rd, 100)
		truncated(t, err, chunk.TruncatedExpired)
		same(t, got, root[:2])
	})
	t.Run("one record of a sub-agent is lost", func(t *testing.T) {
		w, root, kid := setup(t)
		rd, attach := w.listed(true)
		defer rd.close()
		w.remove(kid[2])
		attach()
		got, err := w.rest(rd, 100)
		truncated(t, err, chunk.TruncatedGap)
		same(t, got, append(root[:2:2], kid[:2]...))
	})
	t.Run("a cleanup is done", func(t *testing.T) {
		w, root, kid := setup(t)
		rd, attach := w.listed(true)
		defer rd.close()
		marker := w.cleanUp(alice.Child("kid"), kid[2:]...)
		attach()
		end := w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
		got, err := w.rest(rd, 100)
		if !errors.Is(err, jsreader.ErrEnd) {
			t.Fatal(err)
		}
		same(t, got, slices.Concat(root[:2], kid[:2], root[2:], []chunk.Record{marker, end}))
	})
	t.Run("the stream is recreated", func(t *testing.T) {
		w, _, _ := setup(t)
		rd, _ := w.listed(false)
		defer rd.close()
		state, sessions, err := rd.list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.recreate()
		w.sayAll(alice, 10)
		if err := rd.attachAll(t.Context(), sessions, state); !errors.Is(err, jsreader.ErrRecreated) {
			t.Fatalf("err = %v, want jsreader.ErrRecreated", err)
		}
	})
	t.Run("the iteration is stopped", func(t *testing.T) {
		w, root, kid := setup(t)
		for _, read := range []func() ([]chunk.Record, error){
			func() ([]chunk.Record, error) {
				return handleMsg(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true}), 3)
			},
			func() ([]chunk.Record, error) {
				return handleMsg(w.reader.Follow(t.Context(), chunk.Range{Session: alice, Tree: true}), 3)
			},
		} {
			got, err := read()
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, []chunk.Record{root[0], root[1], kid[0]})
		}
		w.noConsumers()
	})
}
