package topology

import (
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// A bucket cannot be the first one of a layout and that of a partition of another layout.
func TestBucketOfAnotherPartition(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	layout := subjects.Layout{Partitions: 3}
	if err := Ensure(t.Context(), js, Config{Layout: layout}); err != nil {
		t.Fatal(err)
	}
	layout.SnapshotBucket = "TR_SNAPSHOTS_2"
	err := Ensure(t.Context(), js, Config{Layout: layout})
	const want = "KV_TR_SNAPSHOTS_2: partition of the snapshots is 2, want 0; choose another Layout.SnapshotBucket: this bucket belongs to another one; " +
		"otherwise snapshots of different partitions replace each other"
	if err == nil || err.Error() != want {
		t.Errorf("Ensure: %v, want %s", err, want)
	}
}
