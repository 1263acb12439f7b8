package chat

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tailrace/tailrace/sseedge"
)

var errDrained = errors.New("the edge is being stopped")

// streams are the open ones.
type streams struct {
	mu       sync.Mutex // guards the fields below
	draining bool
	cancels  map[*stream]context.CancelCauseFunc
	empty    chan struct{} // closed when draining and the last one is gone
}

func newStreams() *streams {
	return &streams{cancels: make(map[*stream]context.CancelCauseFunc), empty: make(chan struct{})}
}

// enter registers a stream, unless there are to be no new ones.
func (s *streams) enter(st *stream, cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.cancels[st] = cancel
	return true
}

func (s *streams) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.cancels)
}

func (s *streams) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cancels, st)
	if s.draining && len(s.cancels) == 0 {
		close(s.empty)
	}
}

func (s *streams) start() []context.CancelCauseFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining && len(s.cancels) == 0 {
		close(s.empty)
	}
	s.draining = true
	cancels := make([]context.CancelCauseFunc, 0, len(s.cancels))
	for _, cancel := range s.cancels {
		cancels = append(cancels, cancel)
	}
	return cancels
}

// Drain takes no new streams from now on, and no message that one would answer, and
// cuts the open ones, each behind a complete event, spread over Config.Spread or
// half of what ctx still allows: their pages resume at the other edges, and shall not
// all come there at once. It returns when the last one is gone, or when ctx ends.
// Everything else is served on.
func (s *Service) Drain(ctx context.Context) error {
	sseedge.CutEvenly(ctx, s.open.start(), s.cfg.Spread, errDrained)
	select {
	case <-s.open.empty:
		return nil
	case <-ctx.Done():
		n := s.open.count()
		if n == 0 {
			return nil
		}
		return fmt.Errorf("%d chats did not end in time: %w", n, context.Cause(ctx))
	}
}
