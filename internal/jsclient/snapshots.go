package jsclient

import "github.com/nats-io/nats.go/jetstream"

// SnapshotsKey is the metadata key of the stream of a bucket of snapshots with the number of its partition. Without it the bucket is that of a system whose
// partitions share the bucket of partition 0.
const SnapshotsKey = "tailrace.snapshots"

// IsPartitioned reports whether a bucket of snapshots has those of one partition only.
func IsPartitioned(bucket jetstream.StreamConfig) bool { return bucket.Metadata[SnapshotsKey] != "" }
