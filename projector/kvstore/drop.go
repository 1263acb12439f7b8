package kvstore

import (
	"context"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Drop removes the bucket and what was too large for it, and gives the number of
// those objects. Nobody may use the bucket any more. It is an error, and nothing
// is removed, when the bucket has keys that are not of snapshots. The objects go
// first: who dies before the end calls it again, and without the bucket nobody
// would know any more which objects were its own.
func (st *Store) Drop(ctx context.Context) (objects int, err error) {
	b, err := st.open(ctx)
	if err != nil {
		return 0, err
	}
	notes, err := st.notes(ctx, b)
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

// note says that a session has an object.
type note struct {
	session chunk.Session
	object  string
}

// notes are those of a bucket that has nothing but snapshots.
func (st *Store) notes(ctx context.Context, b *bucket) ([]note, error) {
	var notes []note
	for offset := 0; ; {
		page, next, err := st.api.Subjects(ctx, b.name, b.subject(">"), offset)
		if err != nil {
			return nil, err
		}
		for _, subject := range page {
			key := b.key(subject)
			if subjects.IsTurnKey(key) {
				continue
			}
			s, err := subjects.ParseSnapshotKey(key)
			if err != nil {
				return nil, fmt.Errorf("this is no bucket of snapshots: %w", err)
			}
			if object, ok := subjects.SnapshotObjectOf(key); ok {
				notes = append(notes, note{s, object})
			}
		}
		if offset = next; offset == 0 {
			return notes, nil
		}
	}
}
