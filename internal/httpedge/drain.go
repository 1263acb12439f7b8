package httpedge

import (
	"context"
	"errors"
	"sync"

	"github.com/tailrace/tailrace/internal/sse"
)

// Drain prepares this edge for its shutdown: from now on it reports not ready and rejects new streams. It closes the open ones, each after a complete event and
// with a short retry time, evenly over Config.DrainPeriod or half of the time until the deadline of ctx, so that the other edges do not get all clients at
// once. It drains the surfaces that are mounted at the same time, and returns when the last stream has ended. When ctx ends first, the remaining streams are
// closed at once and the error has their number. Pages and snapshots are served until the server is shut down.
func (e *Edge) Drain(ctx context.Context) error {
	errs := make([]error, len(e.surfaces)+1)
	var draining sync.WaitGroup
	for i, s := range e.surfaces {
		draining.Go(func() { errs[i] = s.Drain(ctx) })
	}
	errs[len(e.surfaces)] = e.streams.Begin(ctx, e.cfg.DrainPeriod)
	draining.Wait()
	return errors.Join(errs...)
}

// writeRetryHint sends the client a short retry time instead of the one that was sent when the stream began, so that it reconnects at once: another edge
// responds. The next stream sends the normal retry time again.
func (s *stream) writeRetryHint() {
	if err := s.out.Event(sse.Event{Retry: s.edge.retry()}); err != nil {
		s.edge.cfg.Log.Debug("retry hint not delivered", "error", err)
	}
}
