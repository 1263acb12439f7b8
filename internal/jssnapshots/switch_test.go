package jssnapshots

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// The snapshots of a log are copied to other buckets, by copies that are canceled at random moments and repeated. Nothing is lost, also of sessions whose log has
// expired, and the first buckets are unchanged.
func TestSwitchToOtherBuckets(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	layout := subjects.Layout{Partitions: 4}
	from := open(t, js, layout)
	log, rng := storetest.NewLog(), seedtest.Rand(t)
	var all []chunk.Session
	for n := range 16 {
		root := chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		all = append(all, root, root.Child("kid"))
	}
	for n, s := range all {
		storetest.NewSessionGenerator(log, s, uint64(n)).Write(t, 40)
		mustSave(t, from, storetest.Fold(t, log, s), 0)
		if n%3 == 0 {
			log.Expire(s, chunk.Ordinal(len(log.Records(s))))
		}
	}
	info, err := js.Stream(t.Context(), "KV_TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}

	beside := layout
	beside.SnapshotBucket = "BESIDE"
	streamtest.Ensure(t, js, topology.Config{Layout: beside})
	to, err := New(js, Config{Layout: beside})
	if err != nil {
		t.Fatal(err)
	}
	copyAll := func(ctx context.Context) error {
		for _, s := range all {
			if _, err := projector.RebuildTo(ctx, from, to, log, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	}
	for range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(30))*time.Millisecond)
		if err := copyAll(ctx); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		cancel()
	}
	if err := copyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		storetest.Equal(t, s.String(), storetest.Stored(t, to, s), storetest.Stored(t, from, s))
		b, err := to.bucketOf(t.Context(), s)
		if err != nil || b.bucket() != names.Layout(beside).SnapshotsOf(layout.Partition(s)) {
			t.Errorf("%s is in %s, %v", s, b.bucket(), err)
		}
	}
	after, err := js.Stream(t.Context(), "KV_TR_SNAPSHOTS")
	if err != nil || after.CachedInfo().State.LastSeq != info.CachedInfo().State.LastSeq || after.CachedInfo().State.Msgs != info.CachedInfo().State.Msgs {
		t.Errorf("the first bucket: %+v, %v; before %+v", after.CachedInfo().State, err, info.CachedInfo().State)
	}
	objects, err := from.Drop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("dropped %d objects", objects)
	for p := range layout.PartitionCount() {
		if _, err := js.KeyValue(t.Context(), names.Layout(layout).SnapshotsOf(p)); err == nil {
			t.Errorf("%s is not deleted", names.Layout(layout).SnapshotsOf(p))
		}
	}
	for _, s := range all {
		if _, _, err := to.Load(t.Context(), s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
