package sseedge

import (
	"context"

	"github.com/tailrace/tailrace/internal/sse"
)

// Drain ends the work of this edge: from now on it reports not ready and rejects new streams. It closes the open ones, each after a complete event and with a
// short retry time, evenly over Config.DrainPeriod or half of the time until the deadline of ctx, so that the other edges do not get all clients at once. It
// returns when the last stream has ended. When ctx ends first, the remaining streams are closed at once and the error has their number. Pages and snapshots
// are served until the server is shut down.
func (e *Edge) Drain(ctx context.Context) error { return e.streams.Begin(ctx, e.cfg.DrainPeriod) }

// writeRetryHint tells the client to reconnect at once and not after the time that was sent when the stream began: another edge responds. The next stream
// sends that time again.
func (s *stream) writeRetryHint() {
	if err := s.out.Event(sse.Event{Retry: s.edge.retry()}); err != nil {
		s.edge.cfg.Log.Debug("retry hint not delivered", "error", err)
	}
}
