package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

// Each partition of the log has a bucket of snapshots, so that the saves of its projector have a leader of their own. Everything of a tree is in that of its
// partition, also the keys of its owners; the leases are in that of partition 0.

// bucket is a bucket of heads and messages.
type bucket struct {
	stream jetstream.Stream
	name   string // of the stream
	prefix string // of its subjects
	limit  int    // bytes of a value
}

func (b *bucket) subject(key string) string { return b.prefix + key }

// key is the inverse of subject.
func (b *bucket) key(subject string) string { return strings.TrimPrefix(subject, b.prefix) }

// bucket returns the name of the bucket.
func (b *bucket) bucket() string { return strings.TrimPrefix(b.name, "KV_") }

// locate returns the bucket of a session, and a key of the session, or a filter of some.
func (st *Store) locate(ctx context.Context, s chunk.Session, of func(chunk.Session) (string, error)) (*bucket, string, error) {
	key, err := of(s)
	if err != nil {
		return nil, "", err
	}
	b, err := st.bucketOf(ctx, s)
	return b, key, err
}

// bucketOf returns the bucket of s.
func (st *Store) bucketOf(ctx context.Context, s chunk.Session) (*bucket, error) {
	return st.open(ctx, st.cfg.Layout.Partition(s))
}

// buckets returns all buckets, by partition.
func (st *Store) buckets(ctx context.Context) ([]*bucket, error) {
	var all []*bucket
	for p := range st.cfg.Layout.PartitionCount() {
		b, err := st.open(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// headerReserve is the maximum size of the headers of a stored value.
const headerReserve = 2048

// open looks up the bucket of a partition once.
func (st *Store) open(ctx context.Context, partition int) (*bucket, error) {
	st.mu.Lock()
	opened := st.opened[partition]
	st.mu.Unlock()
	if opened != nil {
		return opened, nil
	}
	name := names.Layout(st.cfg.Layout).SnapshotsOf(partition)
	stream, err := request(ctx, st, func(ctx context.Context) (jetstream.Stream, error) { return st.js.Stream(ctx, "KV_"+name) })
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = jetstream.ErrBucketNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	b := st.newBucket(stream, name)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.opened[partition] = b
	return b, nil
}

func (st *Store) newBucket(stream jetstream.Stream, name string) *bucket {
	limit := int(st.js.Conn().MaxPayload())
	if serverLimit := int(stream.CachedInfo().Config.MaxMsgSize); serverLimit > 0 {
		limit = min(limit, serverLimit)
	}
	return &bucket{stream: stream, name: "KV_" + name, prefix: "$KV." + name + ".", limit: max(0, limit-headerReserve)}
}
