package jssnapshots

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// writerOf returns a writer that knows the stored positions.
func writerOf(t *testing.T, js jetstream.JetStream, layout subjects.Layout) *producers.Producer {
	t.Helper()
	p, err := producers.New(js, producers.Config{Layout: layout, Positions: NewPositions(js, layout)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // ends the runs, whose records are checked
	return p
}

func mustStart(t *testing.T, p *producers.Producer, s chunk.Session) *producers.Run {
	t.Helper()
	r, err := p.Start(t.Context(), s, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		t.Fatalf("start %s: %v", s, err)
	}
	return r
}

// A writer continues after the stored head of a session without records, whatever kind of head that is.
func TestPositionOfAStoredHead(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	p := writerOf(t, js, subjects.Layout{})
	for name, tc := range map[string]struct {
		header  string
		epoch   chunk.Epoch
		ordinal chunk.Ordinal
	}{
		"head":         {`{"status":"ended","seq":77,"ordinal":41,"epoch":6}`, 7, 42},
		"tombstone":    {`{"status":"ended","seq":77,"ordinal":41,"epoch":6,"deleted":true}`, 7, 42},
		"no_header":    {"", 1, 1},
		"not_a_header": {"{", 1, 1},
	} {
		m := nats.NewMsg("$KV.TR_SNAPSHOTS.h.acme." + name + "." + name)
		m.Header.Set(indexHeader, tc.header)
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		r := mustStart(t, p, chunk.RootSession("acme", name))
		if r.Epoch() != tc.epoch || r.Position().Ordinal != tc.ordinal {
			t.Errorf("%s: epoch %d, ordinal %d, want %d and %d", name, r.Epoch(), r.Position().Ordinal, tc.epoch, tc.ordinal)
		}
	}
	if err := js.DeleteKeyValue(t.Context(), "TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	if r := mustStart(t, p, chunk.RootSession("acme", "no_bucket")); r.Epoch() != 1 || r.Position().Ordinal != 1 {
		t.Errorf("without a bucket: epoch %d, ordinal %d, want 1 and 1", r.Epoch(), r.Position().Ordinal)
	}
}

// A writer finds the head in the bucket of its partition.
func TestPositionInABucketOfAPartition(t *testing.T) {
	layout := subjects.Layout{Partitions: 4}
	js := natstest.Start(t).JetStream(t)
	streamtest.Ensure(t, js, topology.Config{Layout: layout})
	p := writerOf(t, js, layout)
	for n := range 12 {
		s := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		bucket := names.Layout(layout).SnapshotsOf(layout.Partition(s))
		m := nats.NewMsg("$KV." + bucket + ".h.acme." + s.ID + "." + s.ID)
		m.Header.Set(indexHeader, `{"status":"ended","seq":77,"ordinal":41,"epoch":6}`)
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if r := mustStart(t, p, s); r.Epoch() != 7 || r.Position().Ordinal != 42 {
			t.Errorf("%s in %s: epoch %d, ordinal %d, want 7 and 42", s, bucket, r.Epoch(), r.Position().Ordinal)
		}
	}
	if r := mustStart(t, p, chunk.RootSession("acme", "new")); r.Epoch() != 1 || r.Position().Ordinal != 1 {
		t.Errorf("a new session: epoch %d, ordinal %d, want 1 and 1", r.Epoch(), r.Position().Ordinal)
	}
}

// Several writers start at the same time after all records of a session have expired. One continues it, and the others find its run.
func TestWritersAfterExpiryStartOnce(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	m := nats.NewMsg("$KV.TR_SNAPSHOTS.h.acme.s1.s1")
	m.Header.Set(indexHeader, `{"status":"ended","seq":77,"ordinal":41,"epoch":6}`)
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var started atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		p := writerOf(t, js, subjects.Layout{})
		all.Go(func() {
			r, err := p.Start(t.Context(), chunk.RootSession("acme", "s1"), chunk.RunStarted{Mode: "execute"})
			switch {
			case err == nil && r.Epoch() == 7 && r.Position().Ordinal == 42:
				started.Add(1)
			case !errors.Is(err, producers.ErrRunning):
				t.Errorf("start: %v, want ErrRunning", err)
			}
		})
	}
	all.Wait()
	if n := started.Load(); n != 1 {
		t.Errorf("%d runs started, want 1", n)
	}
}
