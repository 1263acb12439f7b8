package jssnapshots

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

// Each yields the sessions that have a head, including deleted sessions, and then at most one error. under is the tree to list, zero for all. A head that is saved
// during the iteration may be yielded twice or not at all; the log has the records of its session.
func (st *Store) Each(ctx context.Context, under chunk.Session) iter.Seq2[chunk.Session, error] {
	return func(yield func(chunk.Session, error) bool) {
		filter, all, err := st.bucketsUnder(ctx, under)
		if err != nil {
			yield(chunk.Session{}, err)
			return
		}
		for _, b := range all {
			for h, err := range st.heads(ctx, b, filter, 1) {
				if err == nil && h.session == (chunk.Session{}) {
					continue // another key
				}
				if !yield(h.session, err) || err != nil {
					return
				}
			}
		}
	}
}

// bucketsUnder returns the keys of the heads of a tree and its bucket, or those of all.
func (st *Store) bucketsUnder(ctx context.Context, under chunk.Session) (filter string, _ []*bucket, err error) {
	if under == (chunk.Session{}) {
		all, err := st.buckets(ctx)
		return names.SnapshotHeadKeys(), all, err
	}
	b, filter, err := st.locate(ctx, under, names.SnapshotTreeHeadKeys)
	return filter, []*bucket{b}, err
}
