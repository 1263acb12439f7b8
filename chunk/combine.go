package chunk

import (
	"context"
	"iter"
	"sync"
)

// Source starts a stream that ends soon after ctx does, for example a closure over a reader's Follow.
type Source func(ctx context.Context) iter.Seq2[Record, error]

// Combine interleaves sources as their records arrive; each source keeps its own order. It ends when all sources have ended, or with the first error.
//
// The iteration owns one goroutine per source and one that waits for them. When it ends for any reason, Combine cancels the context of the sources and
// waits until they have returned. It takes Sources because a bare iterator that waits for its next record could not be cancelled.
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
			for range c.arrivals { // until the last pump has returned
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
	stopped  chan struct{} // closed when the consumer has stopped
	pumping  sync.WaitGroup
}

// pump does not watch the context: when the context ends, the source returns an error, which must reach the consumer.
func (c *combiner) pump(records iter.Seq2[Record, error]) {
	for rec, err := range records {
		select {
		case c.arrivals <- arrival{rec, err}:
		case <-c.stopped:
			return
		}
	}
}
