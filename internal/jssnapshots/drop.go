package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

// Drop removes the buckets of all partitions and their objects, and returns the number of objects. No process may use the buckets any more. It is an error, and
// nothing is removed, if a bucket has keys that are not of snapshots. The objects of a bucket are removed before it: after a crash Drop can be called again, and
// without the bucket its objects could not be identified. The bucket of partition 0 is the last one: without it there is nothing to drop.
func (st *Store) Drop(ctx context.Context) (objects int, err error) {
	if _, err := st.open(ctx, 0); err != nil {
		return 0, err
	}
	var all []*bucket
	var notes [][]objectRef
	for p := range st.cfg.Layout.PartitionCount() {
		name := names.Layout(st.cfg.Layout).SnapshotsOf(p)
		stream, err := request(ctx, st, func(ctx context.Context) (jetstream.Stream, error) { return st.js.Stream(ctx, "KV_"+name) })
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // an earlier Drop has removed it
		}
		if err != nil {
			return 0, fmt.Errorf("bucket %s: %w", name, err)
		}
		b := st.newBucket(stream, name)
		refs, err := st.objectRefs(ctx, b)
		if err != nil {
			return 0, fmt.Errorf("bucket %s: %w", name, err)
		}
		all, notes = append(all, b), append(notes, refs)
	}
	for i, b := range slices.Backward(all) {
		for _, n := range notes[i] {
			if err := st.discard(ctx, b, n.session, n.object); err != nil {
				return objects, err
			}
			objects++
		}
		if err := st.js.DeleteKeyValue(ctx, b.bucket()); err != nil {
			return objects, fmt.Errorf("delete bucket %s: %w", b.bucket(), err)
		}
	}
	return objects, nil
}

// objectRef is an object of a session.
type objectRef struct {
	session chunk.Session
	object  string
}

// objectRefs returns the objects of a bucket that has only snapshots.
func (st *Store) objectRefs(ctx context.Context, b *bucket) ([]objectRef, error) {
	var notes []objectRef
	for offset := 0; ; {
		page, next, err := st.api.Subjects(ctx, b.name, b.subject(">"), offset)
		if err != nil {
			return nil, err
		}
		for _, subject := range page {
			key := b.key(subject)
			if names.IsLeaseKey(key) {
				continue
			}
			s, err := names.ParseSnapshotKey(key)
			if err != nil {
				return nil, fmt.Errorf("not a bucket of snapshots: %w", err)
			}
			if object, ok := names.SnapshotObjectOf(key); ok {
				notes = append(notes, objectRef{s, object})
			}
		}
		if offset = next; offset == 0 {
			return notes, nil
		}
	}
}
