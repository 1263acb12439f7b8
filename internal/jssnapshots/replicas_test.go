package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/shares"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

func newReplicas(t *testing.T, js jetstream.JetStream, cfg ReplicasConfig) *Replicas {
	t.Helper()
	r, err := NewReplicas(js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func renew(t *testing.T, r *Replicas) []string {
	t.Helper()
	var names []string
	natstest.Eventually(t, "the lease", func(ctx context.Context) (err error) {
		names, err = r.Renew(ctx)
		return err
	})
	return names
}

// A lease holds until it is removed or not renewed any more, and the bucket keeps nothing of it.
func TestReplicaLeases(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	one := newReplicas(t, w.js, ReplicasConfig{TTL: 30 * time.Second})
	two := newReplicas(t, w.js, ReplicasConfig{TTL: 30 * time.Second, Instance: "two"})
	three := newReplicas(t, w.js, ReplicasConfig{TTL: time.Second})
	if names := renew(t, one); !slices.Equal(names, []string{one.Name()}) {
		t.Errorf("%q, want the first one", names)
	}
	if names := renew(t, two); len(names) != 2 || !slices.Contains(names, one.Name()) || !slices.Contains(names, two.Name()) {
		t.Errorf("%q, want both", names)
	}
	renew(t, three)
	natstest.Eventually(t, "the end of the third lease", func(context.Context) error {
		if names := renew(t, one); len(names) != 2 || slices.Contains(names, three.Name()) {
			return fmt.Errorf("%q, want the first two", names)
		}
		return nil
	})
	if err := one.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := renew(t, two); !slices.Equal(names, []string{two.Name()}) {
		t.Errorf("%q, want the second one", names)
	}
	kv, err := w.js.KeyValue(t.Context(), names.Layout(w.layout).Snapshots())
	if err != nil {
		t.Fatal(err)
	}
	status, err := kv.Status(t.Context())
	if err != nil || status.Values() != 1 {
		t.Errorf("%v values in the bucket, %v; want the lease that holds", status, err)
	}
	if e, err := kv.Get(t.Context(), "turn."+two.Name()); err != nil || string(e.Value()) != "two" {
		t.Errorf("lease %v, %v; want the name of the instance", e, err)
	}
}

// A bucket that an operator created without TTLs of messages refuses leases, with an error that says why.
func TestReplicaLeasesRefused(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if _, err := newReplicas(t, js, ReplicasConfig{}).Renew(t.Context()); err == nil {
		t.Error("a lease without a bucket")
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: names.Layout{}.Snapshots()}); err != nil {
		t.Fatal(err)
	}
	if _, err := newReplicas(t, js, ReplicasConfig{}).Renew(t.Context()); err == nil || !strings.Contains(err.Error(), "TTL") {
		t.Errorf("%v, want one that names the TTL", err)
	}
	for _, cfg := range []ReplicasConfig{{TTL: time.Millisecond}, {TTL: 1500 * time.Millisecond}, {Layout: subjects.Layout{Partitions: -1}}} {
		if _, err := NewReplicas(js, cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// sharing is a projector with a share of the partitions, on its own connection.
type sharing struct {
	*Replicas

	nc   *nats.Conn
	stop func()

	mu        sync.Mutex // guards the fields below
	works     map[int]bool
	delivered uint64
}

func (w *env) share() *sharing {
	w.tb.Helper()
	p := &sharing{nc: w.conn(), works: map[int]bool{}}
	js, err := jetstream.New(p.nc)
	if err != nil {
		w.tb.Fatal(err)
	}
	if p.Replicas, err = NewReplicas(js, ReplicasConfig{Layout: w.layout, TTL: 2 * time.Second}); err != nil {
		w.tb.Fatal(err)
	}
	store, err := New(js, Config{Layout: w.layout})
	if err != nil {
		w.tb.Fatal(err)
	}
	work := func(ctx context.Context, partition int) error {
		_, runner := w.parts(js, SourceConfig{Layout: w.layout, Partition: partition, TakeoverTimeout: 3 * time.Second},
			projector.Config{SaveAfter: 20 * time.Millisecond, StallTimeout: 2 * time.Second}, store)
		p.set(partition, true, 0)
		err := runner.Run(ctx)
		p.set(partition, false, runner.Stats().Delivered)
		return err
	}
	ctx, cancel := context.WithCancel(w.tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := shares.Run(ctx, shares.Config{
			Member: p.Name(), Members: p, Partitions: w.layout.Partitions, Work: work, Interval: p.RenewInterval(), Lease: p.TTL(),
		})
		if !errors.Is(err, context.Canceled) {
			w.tb.Errorf("Run: %v", err)
		}
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.tb.Cleanup(p.stop)
	return p
}

func (p *sharing) set(partition int, works bool, delivered uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.works[partition] = works
	p.delivered += delivered
}

// divided waits until each partition has its owner among some projectors, and no other one of them works on it.
func (w *env) divided(among ...*sharing) {
	w.tb.Helper()
	var names []string
	for _, p := range among {
		names = append(names, p.Name())
	}
	natstest.Eventually(w.tb, "the shares", func(context.Context) error {
		for partition, owner := range shares.Owners(names, w.layout.Partitions) {
			for i, p := range among {
				p.mu.Lock()
				works := p.works[partition]
				p.mu.Unlock()
				if works != (p.Name() == owner) {
					return fmt.Errorf("projector %d works on partition %d: %t", i, partition, works)
				}
			}
		}
		return nil
	})
}

// Projectors share eight partitions: one is alone, two join, two leave, one joins and is killed. All sessions are folded exactly, and what one projector has
// folded is not folded again by the next one.
func TestProjectorsShareThePartitions(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	w := newEnvOn(t, func() *nats.Conn { return srv.Conn(t) }, topology.Config{Layout: subjects.Layout{Partitions: 8}})
	draft := storetest.NewLog()
	var sessions []*storetest.SessionGenerator
	for i := range 24 {
		sessions = append(sessions, storetest.NewSessionGenerator(draft, chunk.RootSession("acme", fmt.Sprintf("s%d", i)), uint64(i)))
	}
	written := uint64(0)
	write := func() {
		t.Helper()
		for _, s := range sessions {
			records := s.Write(t, 10)
			written += uint64(len(records))
			w.copy(records)
		}
	}
	folded := func() {
		t.Helper()
		for _, s := range sessions {
			w.caughtUp(s.Session)
		}
	}

	write()
	one := w.share()
	folded()
	w.divided(one)
	two, three := w.share(), w.share()
	write() // while partitions move
	w.divided(one, two, three)
	folded()
	write()
	folded()
	two.stop()
	write()
	w.divided(one, three)
	folded()
	one.stop()
	w.divided(three)
	write()
	folded()
	four := w.share()
	w.divided(three, four)
	four.nc.Close() // like a crash: it neither renews its lease nor acknowledges or releases anything
	write()
	w.divided(three)
	folded()
	four.stop()
	three.stop()
	delivered := one.delivered + two.delivered + three.delivered + four.delivered
	t.Logf("%d records, %d deliveries", written, delivered)
	if again := delivered - written; delivered < written || again > written/4 {
		t.Errorf("%d of %d records were delivered again: more than those of the killed projector", again, written)
	}
}
