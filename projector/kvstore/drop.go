package kvstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/subjects"
)

// Drop removes the bucket and what was too large for it, and gives the number of
// those objects. Nobody may use the bucket any more. The objects go first: who
// dies before the end calls it again, and without the bucket nobody would know
// any more which objects were its own.
func (st *Store) Drop(ctx context.Context) (objects int, err error) {
	b, err := st.open(ctx)
	if err != nil {
		return 0, err
	}
	var notes []string
	for offset := 0; ; {
		page, next, err := st.api.Subjects(ctx, b.name, b.subject(subjects.SnapshotAllObjectKeys()), offset)
		if err != nil {
			return 0, fmt.Errorf("list the objects of bucket %s: %w", st.cfg.Layout.Snapshots(), err)
		}
		notes = append(notes, page...)
		if offset = next; offset == 0 {
			break
		}
	}
	for _, note := range notes {
		s, err := subjects.ParseSnapshotKey(b.key(note))
		if err != nil {
			continue // somebody else's key
		}
		if err := st.discard(ctx, b, s, note[strings.LastIndexByte(note, '.')+1:]); err != nil {
			return objects, err
		}
		objects++
	}
	if err := st.js.DeleteKeyValue(ctx, st.cfg.Layout.Snapshots()); err != nil {
		return objects, fmt.Errorf("delete bucket %s: %w", st.cfg.Layout.Snapshots(), err)
	}
	return objects, nil
}
