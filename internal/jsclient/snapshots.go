package jsclient

// MaxAgeKey is the metadata key of the stream of the bucket of snapshots of partition 0 with the retention of a snapshot since the last record of its session, a
// duration; 0s is unlimited. A sweep applies it, not the server.
const MaxAgeKey = "tailrace.max-age"
