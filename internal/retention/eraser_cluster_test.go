package retention

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
)

// Sessions with large heads are deleted with their sub-agents, while the leaders of heads, objects and log step down and crash. Delete is repeated after
// each failure; in the end no data is left.
func TestDeleteOnReplicas(t *testing.T) {
	t.Parallel()
	nodes := natstest.StartCluster(t, 3)
	w := newEnvOn(t, stack.Options{On: nodes, Topology: topology.Config{Replicas: 3, MaxSnapshot: 64 << 10}})
	const chunks, heads, objects = "TR_CHUNKS_0", "KV_TR_SNAPSHOTS", "OBJ_TR_OBJECTS"
	for _, stream := range []string{chunks, heads, objects} {
		nodes.AwaitCurrent(t, stream)
	}
	stop := w.project()
	var all []chunk.Session
	down := 0
	for n := range 5 {
		s := chunk.RootSession("acme", fmt.Sprint("s", n))
		for _, one := range []chunk.Session{s, s.Child("kid")} {
			all = append(all, one)
			w.say(one)
			w.projected(one)
		}
		deleted := make(chan error, 1)
		go func() { deleted <- w.persist(s) }()
		switch n {
		case 0:
			nodes.StepDown(t, heads)
		case 1:
			nodes.StepDown(t, objects)
		case 2:
			down = nodes.Leader(t, heads)
			nodes.Kill(t, down)
		case 3:
			nodes.Restart(t, down)
			down = nodes.Leader(t, chunks)
			nodes.Kill(t, down)
		}
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
	}
	stop()
	w.onlyTombstones(all...)
}

// persist deletes s, with a retry after each failure.
func (w *env) persist(s chunk.Session) error {
	var errs []error
	for range 20 {
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
		err := w.eraser.Delete(ctx, s)
		cancel()
		if err == nil || len(errs) > 0 && errors.Is(err, chunk.ErrUnknownSession) {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
