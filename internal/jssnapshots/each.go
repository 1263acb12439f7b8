package jssnapshots

import (
	"context"
	"iter"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Each yields the sessions that have a head, including deleted sessions, and then at most one error. under is the tree to list, zero for all. It holds one
// page of them at a time. A head that is saved during the iteration may be yielded twice or not at all; the log has the records of its session.
func (st *Store) Each(ctx context.Context, under chunk.Session) iter.Seq2[chunk.Session, error] {
	return func(yield func(chunk.Session, error) bool) {
		if err := st.each(ctx, under, func(s chunk.Session) bool { return yield(s, nil) }); err != nil {
			yield(chunk.Session{}, err)
		}
	}
}

func (st *Store) each(ctx context.Context, under chunk.Session, yield func(chunk.Session) bool) error {
	filter := subjects.SnapshotHeadKeys()
	if under != (chunk.Session{}) {
		var err error
		if filter, err = subjects.SnapshotTreeHeadKeys(under); err != nil {
			return err
		}
	}
	all, err := st.bucketsUnder(ctx, under)
	if err != nil {
		return err
	}
	for _, b := range all {
		if more, err := st.eachIn(ctx, b, filter, yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// bucketsUnder returns the bucket of a tree, or all.
func (st *Store) bucketsUnder(ctx context.Context, under chunk.Session) ([]*bucket, error) {
	if under == (chunk.Session{}) {
		return st.buckets(ctx)
	}
	b, err := st.bucketOf(ctx, under)
	return []*bucket{b}, err
}

// eachIn is each for one bucket. It reports whether yield wants more.
func (st *Store) eachIn(ctx context.Context, b *bucket, filter string, yield func(chunk.Session) bool) (bool, error) {
	info, err := st.info(ctx, b, "")
	if err != nil {
		return false, err
	}
	// Heads that are replaced during the iteration are after this end. Without it, an iteration whose caller replaces each head would never end.
	for start, end := uint64(1), info.State.LastSeq; start <= end; {
		page, next, err := st.headPage(ctx, b, filter, start, end)
		if err != nil {
			return false, err
		}
		for _, s := range page {
			if !yield(s) {
				return false, nil
			}
		}
		start = next
	}
	return true, nil
}

// pageHeads is how many heads Each reads at a time.
const pageHeads = 500

// headPage returns the sessions of up to pageHeads heads, and the start of the next page.
func (st *Store) headPage(ctx context.Context, b *bucket, filter string, start, end uint64) (page []chunk.Session, next uint64, err error) {
	next = end + 1
	for h, err := range st.heads(ctx, b, filter, start) {
		if err != nil {
			return nil, 0, err
		}
		if h.seq > end {
			break
		}
		if len(page) == pageHeads {
			next = h.seq
			break
		}
		if h.session != (chunk.Session{}) { // else another key
			page = append(page, h.session)
		}
	}
	return page, next, nil
}
