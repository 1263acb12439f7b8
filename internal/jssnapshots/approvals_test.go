package jssnapshots

import (
	"fmt"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// The count equals that of a simple reference implementation, whenever it is made: by one that has counted before and by one that has not, also after sessions were
// deleted, and after the buckets were recreated.
func TestApprovalsAgainstAReference(t *testing.T) {
	for name, partitions := range placements {
		t.Run(name, func(t *testing.T) {
			js := natstest.Start(t).JetStream(t)
			layout := subjects.Layout{Partitions: partitions}
			st := open(t, js, layout)
			rng := seedtest.Rand(t)
			counted := st.NewApprovals()
			check := func(reference map[chunk.Session]int) {
				t.Helper()
				want := 0
				for _, n := range reference {
					want += n
				}
				for name, a := range map[string]*Approvals{"continued": counted, "first": st.NewApprovals()} {
					if got, err := a.Count(t.Context()); err != nil || got != want {
						t.Errorf("%s count: %d, %v, want %d", name, got, err, want)
					}
				}
			}
			save := func(saves int) {
				t.Helper()
				reference, revisions := make(map[chunk.Session]int), make(map[chunk.Session]projector.Revision)
				for n := range saves {
					s := chunk.RootSession("acme", fmt.Sprintf("s%d", rng.IntN(40)))
					if rng.IntN(4) == 0 {
						s = s.Child("kid")
					}
					snap := fold.New(s).Snapshot()
					snap.Position = chunk.Position{Seq: chunk.Seq(n + 1), Ordinal: chunk.Ordinal(n + 1)}
					if rng.IntN(10) == 0 {
						snap = fold.NewTombstone(s, snap.Position, 1)
					}
					reference[s] = 0
					for i := range rng.IntN(4) {
						if !snap.Deleted() {
							snap.Pending = append(snap.Pending, fold.PendingCall{Kind: fold.PendingApproval, CallID: fmt.Sprint("a", i)}, fold.PendingCall{Kind: fold.PendingClient, CallID: fmt.Sprint("c", i)})
							reference[s]++
						}
					}
					revisions[s] = mustSave(t, st, snap, revisions[s])
					if rng.IntN(20) == 0 {
						check(reference)
					}
				}
				check(reference)
			}
			save(300)
			if _, err := st.Drop(t.Context()); err != nil {
				t.Fatal(err)
			}
			streamtest.Ensure(t, js, topology.Config{Layout: layout})
			st = open(t, js, layout)
			counted.store = st
			save(30)
		})
	}
}
