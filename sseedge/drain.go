package sseedge

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tailrace/tailrace/sseedge/sse"
)

// Drain ends the work of this edge: it is not ready from now on and takes no new
// streams, and it cuts the open ones, each behind a complete event and with a
// short time to come back, spread evenly over Config.Spread or half of what ctx
// still allows, so that the other edges do not get them all at once. It returns
// when the last one is gone. When ctx ends first, the rest is cut at once and
// the error says how many there were. Pages and snapshots are served on until
// the server is shut down.
func (e *Edge) Drain(ctx context.Context) error {
	cancels := e.startDraining()
	CutEvenly(ctx, cancels, e.cfg.Spread, errDrained)
	select {
	case <-e.empty:
		return nil
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.streams) == 0 {
			return nil
		}
		return fmt.Errorf("%d streams did not end in time: %w", len(e.streams), context.Cause(ctx))
	}
}

// CutEvenly ends streams in no order, evenly over a time or half of what ctx still
// allows, and what is left at once when ctx ends. It is for handlers beside an Edge,
// whose clients come back to the other edges like those of the Edge itself.
func CutEvenly(ctx context.Context, cancels []context.CancelCauseFunc, spread time.Duration, cause error) {
	rand.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
	began := time.Now()
	if deadline, limited := ctx.Deadline(); limited {
		spread = min(spread, time.Until(deadline)/2)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, cancel := range cancels {
		timer.Reset(time.Until(began.Add(spread * time.Duration(i) / time.Duration(len(cancels)))))
		select {
		case <-timer.C:
		case <-ctx.Done(): // no time left: all the others now
		}
		cancel(cause)
	}
}

// farewell tells a page to come back at once, and not in the time that was said
// when the stream began: another edge answers. The next stream says that again.
func (s *stream) farewell() {
	if err := s.out.Event(sse.Event{Retry: s.edge.retry()}); err != nil {
		s.edge.cfg.Log.Debug("farewell was not read", "err", err)
	}
}

func (e *Edge) startDraining() []context.CancelCauseFunc {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.draining && len(e.streams) == 0 {
		close(e.empty)
	}
	e.draining = true
	cancels := make([]context.CancelCauseFunc, 0, len(e.streams))
	for _, cancel := range e.streams {
		cancels = append(cancels, cancel)
	}
	return cancels
}

func (e *Edge) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// enter registers a stream, unless there are to be no new ones.
func (e *Edge) enter(s *stream, cancel context.CancelCauseFunc) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return false
	}
	e.streams[s] = cancel
	return true
}

// connections is how many streams there are, for a gauge.
func (e *Edge) connections() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return float64(len(e.streams))
}

func (e *Edge) leave(s *stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.streams, s)
	if e.draining && len(e.streams) == 0 {
		close(e.empty)
	}
}
