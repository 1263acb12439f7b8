package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

const (
	snapshots = "KV_TR_SNAPSHOTS"
	objects   = "OBJ_TR_OBJECTS"
)

// replicated is an env with three servers and a writer.
type replicated struct {
	*env

	nodes    *natstest.Cluster
	producer *producers.Producer
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	c := &replicated{nodes: natstest.StartCluster(t, 3)}
	c.env = newEnvOn(t, func() *nats.Conn { return c.nodes.Conn(t) }, topology.Config{Replicas: 3, MaxSnapshot: 64 << 10})
	for _, name := range []string{stream, snapshots, objects} {
		c.nodes.AwaitCurrent(t, name)
	}
	var err error
	if c.producer, err = producers.New(c.js, producers.Config{Positions: NewPositions(c.js, subjects.Layout{})}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.producer.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func (c *replicated) start(s chunk.Session) *producers.Run {
	c.tb.Helper()
	run, err := c.producer.Start(c.tb.Context(), s, chunk.RunStarted{Input: []chunk.InputMessage{{Content: "question"}}})
	if err != nil {
		c.tb.Fatal(err)
	}
	return run
}

func (c *replicated) emit(run *producers.Run, bodies ...chunk.Body) {
	c.tb.Helper()
	for _, body := range bodies {
		if err := run.EmitBody(c.tb.Context(), body); err != nil {
			c.tb.Fatal(err)
		}
	}
	if _, err := run.Flush(c.tb.Context()); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *replicated) end(run *producers.Run) {
	c.tb.Helper()
	if err := run.End(c.tb.Context(), nil); err != nil {
		c.tb.Fatal(err)
	}
}

// A head that is too large for a value is saved repeatedly while the leaders of heads and objects step down or are killed.
func TestLargeHeadsOnReplicas(t *testing.T) {
	t.Parallel()
	c := newReplicated(t)
	c.project(SourceConfig{})
	s := chunk.RootSession("acme", "large")
	run, down := c.start(s), 0
	for n := range 16 {
		v := chunk.Value(`"` + strings.Repeat(string(rune('a'+n)), 20<<10) + `"`)
		c.emit(run, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: fmt.Sprintf("/k%d", n%6), Value: &v}}}, chunk.StepEnd{})
		switch n {
		case 4:
			c.nodes.StepDown(t, objects)
		case 6:
			c.nodes.StepDown(t, snapshots)
		case 8:
			down = c.nodes.Leader(t, objects)
			c.nodes.Kill(t, down)
		case 12:
			c.nodes.Restart(t, down)
			down = c.nodes.Leader(t, snapshots)
			c.nodes.Kill(t, down)
		}
	}
	c.end(run)
	c.caughtUp(s)
	head, _, err := c.store.Load(t.Context(), s)
	if n := len(head.AppendHead(nil)); err != nil || n < 100<<10 {
		t.Errorf("the head has %d bytes, %v; want more than a value holds", n, err)
	}
}

// Every response to a list request is complete and ordered, whichever leader steps down or is killed while heads are saved.
func TestListOnReplicas(t *testing.T) {
	t.Parallel()
	c := newReplicated(t)
	layout := subjects.Layout{Prefix: "parts", Partitions: 2}
	streamtest.Ensure(t, c.js, topology.Config{Layout: layout, Replicas: 3})
	store, err := New(c.js, Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	first, second := "KV_"+names.Layout(layout).SnapshotsOf(0), "KV_"+names.Layout(layout).SnapshotsOf(1)
	var want []string // those that are not saved again, the latest first
	save := func(id string, seq int) {
		snap := fold.New(chunk.RootSession("acme", id)).Snapshot()
		snap.Position = chunk.Position{Seq: chunk.Seq(seq), Ordinal: chunk.Ordinal(seq)}
		natstest.Eventually(t, "a save of "+id, func(ctx context.Context) error {
			_, revision, err := store.Load(ctx, snap.Session)
			if err == nil || errors.Is(err, projector.ErrNoSnapshot) {
				_, err = store.Save(ctx, snap, revision)
			}
			return err
		})
	}
	for n := range 30 {
		save(fmt.Sprint("still-", n), 1)
		want = append([]string{fmt.Sprint("still-", n)}, want...)
	}
	list := func() (all []projector.SessionInfo, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		for q := (projector.SessionQuery{Limit: 7}); ; {
			page, err := store.Sessions(ctx, "acme", q)
			if err != nil {
				return nil, err
			}
			all = append(all, page.Sessions...)
			if q.Before = page.Next; q.Before == "" {
				return all, nil
			}
		}
	}
	check := func(all []projector.SessionInfo) {
		t.Helper()
		var still []string
		for _, l := range all {
			if strings.HasPrefix(l.Session.ID, "still-") {
				still = append(still, l.Session.ID)
			}
		}
		if !slices.Equal(still, want) {
			t.Fatalf("listed %v, want %v", still, want)
		}
	}
	c.nodes.AwaitCurrent(t, first)
	c.nodes.AwaitCurrent(t, second)
	var failures []error
	down := 0
	for n := range 40 {
		switch n {
		case 10:
			c.nodes.StepDown(t, first)
		case 20:
			down = c.nodes.Leader(t, second)
			c.nodes.Kill(t, down)
		case 30:
			c.nodes.Restart(t, down)
		}
		all, err := list()
		if err != nil {
			failures = append(failures, err)
		} else {
			check(all)
		}
		save(fmt.Sprint("busy-", n%3), n+1)
	}
	all, err := list()
	if err != nil || len(failures) > 5 { // while there is no leader
		t.Fatalf("the last list: %v, and before: %v", err, failures)
	}
	check(all)
	var busy []string
	for _, l := range all[:len(all)-len(want)] {
		busy = append(busy, fmt.Sprint(l.Session.ID, " at ", l.Position.Seq))
	}
	if got := fmt.Sprint(busy); got != "[busy-0 at 40 busy-2 at 39 busy-1 at 38]" {
		t.Errorf("on top are %s", got)
	}
}
