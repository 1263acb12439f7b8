package chat

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errDrained = errors.New("the edge is being stopped")

// streams are the open ones.
type streams struct {
	mu       sync.Mutex // guards the fields below
	most     int        // how many there may be, negative for no limit
	draining bool
	cancels  map[*stream]context.CancelCauseFunc
	empty    chan struct{} // closed when draining and the last one is gone
}

func newStreams(most int) *streams {
	return &streams{most: most, cancels: make(map[*stream]context.CancelCauseFunc), empty: make(chan struct{})}
}

// enter registers a stream, or says why there is to be none.
func (s *streams) enter(st *stream, cancel context.CancelCauseFunc) *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.closed(); p != nil {
		return p
	}
	s.cancels[st] = cancel
	return nil
}

// admits says why there would be no stream now. Who is refused here has done
// nothing yet: what he sends is not carried out behind a refusal.
func (s *streams) admits() *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed()
}

func (s *streams) closed() *Problem {
	switch {
	case s.draining:
		return draining
	case s.most >= 0 && len(s.cancels) >= s.most:
		return full
	}
	return nil
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

// Drain takes no new streams from now on and cuts the open ones, each behind a
// complete event: their pages resume at another edge. It returns when the last one
// is gone, or when ctx ends. Everything else is served on.
func (s *Service) Drain(ctx context.Context) error {
	for _, cancel := range s.open.start() {
		cancel(errDrained)
	}
	select {
	case <-s.open.empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("chats did not end in time: %w", context.Cause(ctx))
	}
}
