package agentserver

import (
	"context"
	"errors"
	"sync"
)

var errDrained = errors.New("the edge is being stopped")

// Drain refuses every /sse that waits for a run to begin, and those that come from
// now on: another edge lets them wait. Those that show events are drained by the
// handler that they were handed to. All other requests are short, and served on.
func (s *Server) Drain() {
	w := &s.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drained = true
	for _, cancel := range w.cancels {
		cancel(errDrained)
	}
}

// waiting are the requests that wait for a run to begin.
type waiting struct {
	mu      sync.Mutex // guards the fields below
	drained bool
	cancels map[*struct{ _ byte }]context.CancelCauseFunc
}

// enter returns ctx until Drain. leave must be called.
func (w *waiting) enter(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drained {
		cancel(errDrained)
	}
	if w.cancels == nil {
		w.cancels = make(map[*struct{ _ byte }]context.CancelCauseFunc)
	}
	me := new(struct{ _ byte })
	w.cancels[me] = cancel
	return ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cancels, me)
		cancel(nil)
	}
}
