package topology

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// The buckets of snapshots of a new log are partitioned. Those of a log that an earlier build created are not, whichever bucket an operator deletes.
func TestBucketsOfSnapshots(t *testing.T) {
	const first, second, third = "KV_TR_SNAPSHOTS", "KV_TR_SNAPSHOTS_1", "KV_TR_SNAPSHOTS_2"
	cfg := Config{Layout: subjects.Layout{Partitions: 3}}
	for _, c := range []struct {
		name    string
		earlier []jetstream.StreamConfig
		deletes []string // then
		want    bool
	}{
		{name: "a new log", want: true},
		{name: "a new log that lost a bucket", deletes: []string{second}, want: true},
		{name: "a new log that lost the first bucket", deletes: []string{first}, want: true},
		{name: "a new log that lost all buckets", deletes: []string{first, second, third}, want: true},
		{name: "an interrupted setup of a new log", earlier: logs(cfg), want: true},
		{name: "an earlier build", earlier: append(logs(cfg), unmarked(cfg)), want: false},
		{name: "an earlier build that lost the first bucket", earlier: append(logs(cfg), unmarked(cfg)), deletes: []string{first}, want: false},
		{name: "an earlier build that lost a bucket", earlier: append(logs(cfg), unmarked(cfg)), deletes: []string{second}, want: false},
		{name: "an earlier build with one partition", earlier: append(logs(cfg)[:1], unmarked(cfg)), want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			js := natstest.Start(t).JetStream(t)
			for _, stream := range c.earlier {
				if _, err := js.CreateStream(t.Context(), stream); err != nil {
					t.Fatal(err)
				}
			}
			ensure := func() {
				t.Helper()
				if err := Ensure(t.Context(), js, cfg); err != nil {
					t.Fatal(err)
				}
			}
			ensure()
			for _, bucket := range c.deletes {
				if err := js.DeleteStream(t.Context(), bucket); err != nil {
					t.Fatal(err)
				}
			}
			ensure()
			for p, bucket := range []string{first, second, third} {
				stream, err := js.Stream(t.Context(), bucket)
				if err != nil {
					t.Fatal(err)
				}
				if got := jsclient.IsPartitioned(stream.CachedInfo().Config); got != c.want {
					t.Errorf("bucket of partition %d: %v", p, stream.CachedInfo().Config.Metadata)
				}
			}
		})
	}
}

// logs returns the streams of the log.
func logs(cfg Config) (all []jetstream.StreamConfig) {
	for p := range cfg.Layout.PartitionCount() {
		all = append(all, cfg.withDefaults().chunks(p).StreamConfig)
	}
	return all
}

// unmarked returns the bucket of partition 0 as an earlier build has created it.
func unmarked(cfg Config) jetstream.StreamConfig {
	s := cfg.withDefaults().snapshots(0).StreamConfig
	s.Metadata = nil
	return s
}

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
