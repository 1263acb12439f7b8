package chunk

import (
	"context"
	"iter"
	"sync"
)

// Source starts a stream that ends soon after ctx does. A closure over a
// reader's Follow is one.
type Source func(ctx context.Context) iter.Seq2[Record, error]

// Combine interleaves sources as their records arrive; each source keeps its
// own order. It ends when all have ended, or with the first error of one.
//
// The iteration owns one goroutine per source and one that waits for them. When
// it ends, for whatever reason, the context of the sources is cancelled and
// Combine waits until they have returned. That is why it takes Sources and no
// bare iterators: nothing could wake one that waits for its next record.
func Combine(ctx context.Context, sources ...Source) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		c := combiner{arrivals: make(chan arrival), stopped: make(chan struct{})}
		for _, source := range sources {
			c.pumping.Go(func() { c.pump(source(ctx)) })
		}
		go func() {
			c.pumping.Wait()
			close(c.arrivals)
		}()
		defer func() {
			close(c.stopped)
			cancel()
			for range c.arrivals { // until the last pump is gone
			}
		}()
		for a := range c.arrivals {
			if !yield(a.rec, a.err) || a.err != nil {
				return
			}
		}
	}
}

type arrival struct {
	rec Record
	err error
}

type combiner struct {
	arrivals chan arrival
	stopped  chan struct{} // closed when nobody reads any more
	pumping  sync.WaitGroup
}

// pump does not watch the context: when that ends, the source says so with an
// error, which must reach the consumer instead of a clean end.
func (c *combiner) pump(records iter.Seq2[Record, error]) {
	for rec, err := range records {
		select {
		case c.arrivals <- arrival{rec, err}:
		case <-c.stopped:
			return
		}
	}
}
