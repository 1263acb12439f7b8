package jssnapshots

import (
	"context"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Drop removes the bucket and its objects, and returns the number of objects. No process may use the bucket any more. It is an error, and nothing is
// removed, if the bucket has keys that are not of snapshots. The objects are removed first: after a crash Drop can be called again, and without the bucket
// its objects could not be identified.
func (st *Store) Drop(ctx context.Context) (objects int, err error) {
	b, err := st.open(ctx)
	if err != nil {
		return 0, err
	}
	notes, err := st.objectRefs(ctx, b)
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", st.cfg.Layout.Snapshots(), err)
	}
	for _, n := range notes {
		if err := st.discard(ctx, b, n.session, n.object); err != nil {
			return objects, err
		}
		objects++
	}
	if err := st.js.DeleteKeyValue(ctx, st.cfg.Layout.Snapshots()); err != nil {
		return objects, fmt.Errorf("delete bucket %s: %w", st.cfg.Layout.Snapshots(), err)
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
			if subjects.IsLeaseKey(key) {
				continue
			}
			s, err := subjects.ParseSnapshotKey(key)
			if err != nil {
				return nil, fmt.Errorf("not a bucket of snapshots: %w", err)
			}
			if object, ok := subjects.SnapshotObjectOf(key); ok {
				notes = append(notes, objectRef{s, object})
			}
		}
		if offset = next; offset == 0 {
			return notes, nil
		}
	}
}
