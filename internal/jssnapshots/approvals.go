package jssnapshots

import (
	"context"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
)

// Approvals counts the calls that wait for an approval in all sessions. It reads the headers of the heads that were saved since the last count, so the first count
// reads all of them, and the memory is that of the sessions that wait. Not for concurrent use.
type Approvals struct {
	store   *Store
	buckets map[string]*countedBucket // by name
}

// countedBucket is what was counted of one bucket.
type countedBucket struct {
	created time.Time // of its stream
	through uint64    // last sequence that was read
	waiting map[chunk.Session]int64
}

// NewApprovals returns Approvals that have counted nothing.
func (st *Store) NewApprovals() *Approvals {
	return &Approvals{store: st, buckets: make(map[string]*countedBucket)}
}

// Count returns the number of calls that wait for an approval, as of the saved heads. After an error, the next count continues.
func (a *Approvals) Count(ctx context.Context) (int, error) {
	all, err := a.store.buckets(ctx)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, b := range all {
		c, err := a.read(ctx, b)
		if err != nil {
			return 0, err
		}
		for _, n := range c.waiting {
			sum += n
		}
	}
	return int(sum), nil
}

// read reads the new heads of a bucket.
func (a *Approvals) read(ctx context.Context, b *bucket) (*countedBucket, error) {
	info, err := a.store.info(ctx, b, "")
	if err != nil {
		return nil, err
	}
	c := a.buckets[b.name]
	if c == nil || !c.created.Equal(info.Created) || c.through > info.State.LastSeq { // recreated, or restored from an older copy
		c = &countedBucket{created: info.Created, waiting: make(map[chunk.Session]int64)}
		a.buckets[b.name] = c
	}
	if c.through == info.State.LastSeq {
		return c, nil
	}
	for h, err := range a.store.heads(ctx, b, names.SnapshotHeadKeys(), c.through+1) {
		if err != nil {
			return nil, err
		}
		if h.Approvals > 0 && !h.Deleted {
			c.waiting[h.session] = h.Approvals
		} else {
			delete(c.waiting, h.session)
		}
		c.through = h.seq
	}
	c.through = max(c.through, info.State.LastSeq)
	return c, nil
}
