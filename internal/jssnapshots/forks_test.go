package jssnapshots

import (
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// A save writes the key of a fork once, with the first head that has the origin, into the bucket of the origin. An origin that cannot exist has none.
func TestSaveWritesTheKeyOfAFork(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	o := owners{open(t, js, subjects.Layout{Partitions: 4}), t, js}
	origin := chunk.RootSession("acme", "o:1/a")
	forksOf := func(s chunk.Session) (ids []string) {
		t.Helper()
		all, err := o.Forks(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, fork := range all {
			ids = append(ids, fork.ID)
		}
		slices.Sort(ids)
		return ids
	}
	want := []string{"f:0", "f:1", "f:2", "f:3", "f:4", "f:5"} // in several partitions
	for _, id := range want {
		fork := chunk.RootSession("acme", id)
		r := o.save(owned(fork, "ann", 1), 0)
		snap := owned(fork, "ann", 2)
		snap.Origin = &chunk.ForkOrigin{Session: origin.ID}
		r = o.save(snap, r)
		if err := o.RemoveFork(t.Context(), chunk.RootSession("globex", origin.ID), fork); err != nil {
			t.Error(err)
		}
		if id == "f:0" {
			if err := o.RemoveFork(t.Context(), origin, fork); err != nil {
				t.Error(err)
			}
		}
		snap.Position.Ordinal++
		o.save(snap, r)
	}
	if got := forksOf(origin); !slices.Equal(got, want[1:]) {
		t.Errorf("forks %v, want %v: a later save writes no key", got, want[1:])
	}
	for _, s := range []chunk.Session{chunk.RootSession("globex", origin.ID), chunk.RootSession("acme", "o")} {
		if got := forksOf(s); len(got) > 0 {
			t.Errorf("forks of %s: %v", s, got)
		}
	}
	impossible := owned(chunk.RootSession("acme", "f6"), "ann", 1)
	impossible.Origin = &chunk.ForkOrigin{Session: "*"}
	o.save(impossible, 0)
}
