package topology

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// partitionSnapshots decides whether the partitions of a log have buckets of snapshots of their own. In a log with several partitions that an earlier build
// created they do not: their snapshots are in the bucket of partition 0, and would not be found in another one. Then the missing buckets are created without
// jsclient.SnapshotsKey, which says that they are not in use. A log that had one partition until now has its snapshots where they belong, so the bucket of
// partition 0 gets the key before there is a second partition.
//
// All buckets have the key or none has it, whichever of them was deleted: processes that run do not read it again.
func partitionSnapshots(ctx context.Context, js jetstream.JetStream, layout subjects.Layout, missing []streamSpec) error {
	if layout.PartitionCount() == 1 {
		return nil
	}
	isMissing := func(stream string) bool {
		return slices.ContainsFunc(missing, func(m streamSpec) bool { return m.Name == stream })
	}
	existing, several := "", false // several partitions of the log
	for p := range layout.PartitionCount() {
		if name := "KV_" + layout.SnapshotsOf(p); existing == "" && !isMissing(name) {
			existing = name
		}
		several = several || p > 0 && !isMissing(layout.Stream(p))
	}
	if existing == "" {
		return nil
	}
	stream, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, existing) })
	if err != nil {
		return explain(js, "read stream "+existing, err)
	}
	cfg := stream.CachedInfo().Config
	if jsclient.IsPartitioned(cfg) {
		return nil
	}
	if !several && existing == "KV_"+layout.Snapshots() {
		return mark(ctx, js, cfg)
	}
	for i, m := range missing {
		if m.Metadata[jsclient.SnapshotsKey] != "" {
			missing[i].Metadata = nil
		}
	}
	return nil
}

// mark writes the key into the metadata of the bucket of partition 0.
func mark(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[jsclient.SnapshotsKey] = "0"
	_, err := withRetry(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.UpdateStream(ctx, cfg) })
	if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) { // deleted meanwhile: the next Ensure creates it with the key
		return nil
	}
	return explain(js, "update stream "+cfg.Name, err)
}
