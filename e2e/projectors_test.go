//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// Three projectors share two partitions. While sessions are written, one with a partition is killed with SIGKILL, and the other one of them is shut down. Each time
// the rest has both partitions a moment later, and in the end each snapshot is the fold of the log.
func TestProjectorsShareThePartitions(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	layout := subjects.Layout{Partitions: 2}
	nc := server.Conn(t)
	js := jetStream(t, nc)
	streamtest.Ensure(t, js, topology.Config{Layout: layout})
	log := newReader(t, nc, consumers.Config{Layout: layout})
	store, err := jssnapshots.New(js, jssnapshots.Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := producers.New(js, producers.Config{Layout: layout, Positions: jssnapshots.NewPositions(js, layout)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := producer.Close(); err != nil {
			t.Error(err)
		}
	})
	live := make([]*edgeProcess, 3)
	for i := range live {
		live[i] = newEdge(t, server.URL)
		live[i].args = []string{"projector", "--partitions", "2"}
		live[i].start(t)
	}
	var runs []*producers.Run
	for i := range 20 {
		run, err := producer.Start(t.Context(), chunk.RootSession("default", fmt.Sprintf("s%d", i)), chunk.RunStarted{Mode: "execute"}, producers.AgentType("teller"))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	write := func() {
		t.Helper()
		for _, run := range runs {
			for i := range 20 {
				if err := run.EmitBody(t.Context(), chunk.Custom{EventName: fmt.Sprintf("n%d", i)}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := run.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}

	// shared waits until the partitions are shared by the projectors that live, and returns one that has some.
	shared := func() (owner int) {
		t.Helper()
		natstest.Eventually(t, "the shares", func(context.Context) error {
			partitions := 0
			for i, p := range live {
				n, replicas := int(p.metric(t, "tailrace_projector_partitions")), int(p.metric(t, "tailrace_projector_replicas"))
				if partitions += n; replicas != len(live) {
					return fmt.Errorf("projector %d of %d has %d partitions and observes %d replicas", i, len(live), n, replicas)
				}
				if n > 0 {
					owner = i
				}
			}
			if partitions != 2 {
				return fmt.Errorf("%d partitions have an owner, want 2", partitions)
			}
			return nil
		})
		return owner
	}
	write()
	killed := shared()
	live[killed].signal(t, syscall.SIGKILL)
	live = append(live[:killed], live[killed+1:]...)
	write()
	stopped := shared()
	live[stopped].terminate(t)
	live = append(live[:stopped], live[stopped+1:]...)
	write()
	shared()
	for _, run := range runs {
		if err := run.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range runs {
		checkSnapshot(t, store, log, chunk.RootSession("default", fmt.Sprintf("s%d", i)))
	}
}

// checkSnapshot waits until the snapshot of a session that has ended is at the end of its log, and compares it with the fold of the log.
func checkSnapshot(t *testing.T, store *jssnapshots.Store, log *consumers.Reader, s chunk.Session) {
	t.Helper()
	last, err := log.Last(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the snapshot of "+s.String(), func(ctx context.Context) error {
		snap, _, err := store.Load(ctx, s)
		if err == nil && snap.Position != last.Position() {
			err = fmt.Errorf("head at %+v, log at %+v", snap.Position, last.Position())
		}
		return err
	})
	storetest.Equal(t, s.String(), storetest.Stored(t, store, s), storetest.Fold(t, log, s))
}
