package sseedge

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace/tailrace/projector"
)

// readBudget bounds the memory of all pages that are being read or written. The size of a conversation is known only after it was read. So a read reserves a
// little and may read that much; if it needs more, it is repeated with a larger reservation. When the page is complete, the reservation shrinks to its text,
// which is held until it is written.
//
// A quarter of the budget is for first attempts, so that they never wait for long conversations, nor for slow clients that receive them. An eighth is for
// trees: a tree reads its sessions while it holds what it has collected, and must not wait for itself.
type readBudget struct {
	first, trees, rest             *semaphore.Weighted // nil: unlimited
	firstSize, treesSize, restSize int64
	inUse                          atomic.Int64
}

const (
	defaultReadBytes = 256 << 20

	firstRead  = 1 << 20 // bytes of the first reservation of a read
	readGrowth = 8       // factor between two reservations
	maxTrees   = 8       // that are read at the same time

	// readMemory is the memory of a read for each byte that was stored: the stored form, its parsed form, the text of the page, and that text with a view
	// applied.
	readMemory = 4
)

// errReadBudget reports that the budget was in use until the timeout of a read.
var errReadBudget = errors.New("read budget in use")

// newReadBudget returns a budget of bytes; 0 is 256 MiB, a negative number unlimited.
func newReadBudget(bytes int64) *readBudget {
	bytes = cmp.Or(bytes, defaultReadBytes)
	b := &readBudget{firstSize: max(1, bytes/4), treesSize: max(1, bytes/8)}
	b.restSize = max(1, bytes-b.firstSize-b.treesSize)
	if bytes > 0 {
		b.first, b.trees, b.rest = semaphore.NewWeighted(b.firstSize), semaphore.NewWeighted(b.treesSize), semaphore.NewWeighted(b.restSize)
	}
	return b
}

// reservation is a part of the budget. A nil *reservation is none.
type reservation struct {
	of   *readBudget
	lane *semaphore.Weighted // nil: unlimited
	size int64
}

func (b *readBudget) reserve(ctx context.Context, lane *semaphore.Weighted, size int64) (*reservation, error) {
	if lane != nil && lane.Acquire(ctx, size) != nil {
		return nil, errReadBudget
	}
	b.inUse.Add(size)
	return &reservation{b, lane, size}, nil
}

// reserveHistory reserves the memory of a historical snapshot.
func (b *readBudget) reserveHistory(ctx context.Context) (*reservation, error) {
	return b.reserve(ctx, b.rest, max(1, b.restSize/maxRewinds))
}

// reserveTree reserves the memory of a tree, in addition to that of the session that it reads at the time.
func (b *readBudget) reserveTree(ctx context.Context) (*reservation, error) {
	return b.reserve(ctx, b.trees, max(1, b.treesSize/maxTrees))
}

// shrink releases all but size bytes. What exceeds the reservation is not counted.
func (r *reservation) shrink(size int) {
	if r == nil || int64(size) >= r.size {
		return
	}
	freed := r.size - int64(size)
	r.size = int64(size)
	r.of.inUse.Add(-freed)
	if r.lane != nil {
		r.lane.Release(freed)
	}
}

func (r *reservation) release() { r.shrink(0) }

// readWithin calls read until its reservation is large enough, and returns that reservation, nil after an error. The last one is most of the budget, and
// allows any size: such reads are made one after another.
func readWithin[T any](ctx context.Context, b *readBudget, read func(context.Context) (T, error)) (T, *reservation, error) {
	lane, size := b.first, min(firstRead, b.firstSize)
	for {
		var none T
		r, err := b.reserve(ctx, lane, size)
		if err != nil {
			return none, nil, err
		}
		limited := ctx
		if lane != nil && (lane == b.first || size < b.restSize) {
			limited = projector.WithReadLimit(ctx, size/readMemory)
		}
		v, err := read(limited)
		if err == nil {
			return v, r, nil
		}
		r.release()
		if !errors.Is(err, projector.ErrReadLimit) {
			return none, nil, err
		}
		lane, size = b.rest, min(size*readGrowth, b.restSize)
	}
}
