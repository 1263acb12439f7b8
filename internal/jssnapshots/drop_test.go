package jssnapshots

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// A bucket that is no longer used is deleted with its objects, and without those of another bucket.
func TestDrop(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	old := openSmall(t, js)
	log := newLarge(t)
	r := mustSave(t, old, log.fold(t), 0)
	log.end(t)
	log.start(t)
	for range 4 {
		log.emit(t, string(make([]byte, 30<<10)))
	}
	mustSave(t, old, log.fold(t), r)

	layout := subjects.Layout{SnapshotBucket: "OTHER"}
	streamtest.Ensure(t, js, topology.Config{Layout: layout, MaxSnapshot: 64 << 10})
	other, err := New(js, Config{Layout: layout})
	if err != nil {
		t.Fatal(err)
	}
	mustSave(t, other, log.fold(t), 0)
	_, before := held(t, js)
	n, err := old.Drop(t.Context())
	if err != nil || n != 2 {
		t.Fatalf("%d objects, %v; want 2", n, err)
	}
	if _, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("the bucket: %v", err)
	}
	objects, err := js.Stream(t.Context(), "OBJ_TR_OBJECTS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := objects.Info(t.Context(), jetstream.WithSubjectFilter("$O.TR_OBJECTS.C.>"))
	if err != nil || len(before) != 4 || len(info.State.Subjects) != 2 {
		t.Errorf("of %d objects %v are left, %v; want 2 of 4", len(before), info.State.Subjects, err)
	}
	storetest.Equal(t, "the other bucket", storetest.Stored(t, other, s1), log.fold(t))
}

// A mistyped name does not delete another bucket.
func TestDropRejectsOtherBuckets(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	openSmall(t, js)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "PRICES"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "tea", "3"); err != nil {
		t.Fatal(err)
	}
	st, err := New(js, Config{Layout: subjects.Layout{SnapshotBucket: "PRICES"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Drop(t.Context()); err == nil {
		t.Error("a bucket of prices was dropped")
	}
	if tea, err := kv.Get(t.Context(), "tea"); err != nil || string(tea.Value()) != "3" {
		t.Errorf("tea: %v, %v", tea, err)
	}
}
