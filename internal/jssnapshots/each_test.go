package jssnapshots

import (
	"fmt"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Every head is returned once while each returned one is saved again; also for a single tree.
func TestEach(t *testing.T) {
	st := open(t, natstest.Start(t).JetStream(t), subjects.Layout{})
	const n = 1010
	save := func(s chunk.Session) {
		snap, revision, err := st.Load(t.Context(), s)
		if err != nil {
			snap = fold.New(s).Snapshot()
		}
		if _, err := st.Save(t.Context(), snap, revision); err != nil {
			t.Fatal(err)
		}
	}
	tree := chunk.RootSession("acme", "r7")
	save(tree.Child("k"))
	for i := range n {
		save(chunk.RootSession("acme", fmt.Sprintf("r%d", i)))
	}
	seen := make(map[chunk.Session]int)
	for s, err := range st.Each(t.Context(), chunk.Session{}) {
		if err != nil {
			t.Fatal(err)
		}
		seen[s]++
		save(s)
	}
	if len(seen) != n+1 || seen[tree] != 1 {
		t.Errorf("%d sessions, r7 %d times; want %d", len(seen), seen[tree], n+1)
	}
	clear(seen)
	for s, err := range st.Each(t.Context(), tree) {
		if err != nil {
			t.Fatal(err)
		}
		seen[s]++
	}
	if len(seen) != 2 || seen[tree] != 1 || seen[tree.Child("k")] != 1 {
		t.Errorf("the tree has %v", seen)
	}
}
