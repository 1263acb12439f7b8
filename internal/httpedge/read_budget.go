package httpedge

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
)

// readBudget bounds the memory of all pages that are being read or written. The size of a conversation is known only after it was read. So a read reserves a
// little and may read that much; if it needs more, it is repeated with a larger reservation, at most with all of the budget for long conversations. When the page is
// complete, the reservation shrinks to its text, which is held until it is written.
//
// A quarter of the budget is for first attempts, so that they never wait for long conversations, nor for slow clients that receive them. An eighth is for
// trees and summaries: they read while they hold what they have collected, and must not wait for themselves.
type readBudget struct{ first, trees, rest *httpkit.Budget }

const (
	defaultReadBytes = 256 << 20

	firstRead  = 1 << 20 // bytes of the first reservation of a read
	readGrowth = 8       // factor between two reservations
	maxTrees   = 8       // that are read at the same time
	maxRewinds = 4       // historical snapshots that are made at the same time

	// readMemory is the memory of a read for each byte that was stored: the stored form, its parsed form, the text of the page, and that text with a view
	// applied.
	readMemory = 4
)

// newReadBudget returns a budget of bytes; 0 is 256 MiB, a negative number unlimited.
func newReadBudget(bytes int64) *readBudget {
	bytes = cmp.Or(bytes, defaultReadBytes)
	if bytes < 0 {
		return &readBudget{httpkit.NewBudget(-1), httpkit.NewBudget(-1), httpkit.NewBudget(-1)}
	}
	return &readBudget{httpkit.NewBudget(max(1, bytes/4)), httpkit.NewBudget(max(1, bytes/8)), httpkit.NewBudget(max(1, bytes-bytes/4-bytes/8))}
}

func (b *readBudget) inUse() int64 { return b.first.InUse() + b.trees.InUse() + b.rest.InUse() }

// reservation is a part of the budget. A nil *reservation is none.
type reservation struct {
	of     *httpkit.Budget
	client httpkit.Client
	size   int64
}

func reserve(ctx context.Context, of *httpkit.Budget, size int64) (*reservation, error) {
	client := httpkit.ClientOf(ctx)
	if err := of.Take(ctx, client, size); err != nil {
		return nil, err
	}
	return &reservation{of, client, size}, nil
}

// reserveHistory reserves the memory of a historical snapshot, and returns nil if there is none for a second: it could take as long as the others. It waits
// because a tenant that has a page at the moment gets less while others have their share.
func (b *readBudget) reserveHistory(ctx context.Context) *reservation {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r, err := reserve(ctx, b.rest, max(1, b.rest.Limit()/maxRewinds)); err == nil {
		return r
	}
	return nil
}

// reserveTree reserves the memory of a tree, in addition to that of the session that it reads at the time.
func (b *readBudget) reserveTree(ctx context.Context) (*reservation, error) {
	return reserve(ctx, b.trees, max(1, b.trees.Limit()/maxTrees))
}

// reserveSummary reserves the memory of the rows of a summary, in addition to that of the list that it reads. It is at most what a Budget leaves beside one tenant.
func (b *readBudget) reserveSummary(ctx context.Context) (*reservation, error) {
	return reserve(ctx, b.trees, max(1, min(800*projector.MaxScan, b.trees.Limit()/2)))
}

// shrink releases all but size bytes. What exceeds the reservation is not counted.
func (r *reservation) shrink(size int) {
	if r == nil || int64(size) >= r.size {
		return
	}
	r.of.Return(r.client, r.size-int64(size))
	r.size = int64(size)
}

func (r *reservation) release() { r.shrink(0) }

// withinBudget is the key of the contexts of readWithin: what is read for a page does not reserve again.
type withinBudget struct{}

// readWithin calls read until its reservation is large enough, and returns that reservation, nil after an error. The error is projector.ErrReadLimit for what is larger
// than the budget for long conversations.
func readWithin[T any](ctx context.Context, b *readBudget, read func(context.Context) (T, error)) (T, *reservation, error) {
	lane, size := b.first, int64(firstRead)
	for {
		var none T
		limited := context.WithValue(ctx, withinBudget{}, true)
		if most := lane.Limit(); most >= 0 {
			size = min(size, most)
			limited = projector.WithReadLimit(limited, size/readMemory)
		}
		r, err := reserve(ctx, lane, size)
		if err != nil {
			return none, nil, err
		}
		v, err := read(limited)
		if err == nil {
			return v, r, nil
		}
		r.release()
		if !errors.Is(err, projector.ErrReadLimit) || lane == b.rest && size == lane.Limit() {
			return none, nil, err
		}
		lane, size = b.rest, size*readGrowth
	}
}
