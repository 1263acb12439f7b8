package chat

import (
	"context"

	"github.com/tailrace/tailrace/internal/conversation"
)

// prefetch follows the log while the command for the next run is published, so that the records of that run are available sooner.
type prefetch struct {
	cancel  context.CancelFunc
	done    chan struct{} // closed when the fields below are set
	records recordStream
	err     error
}

// startPrefetch starts to follow the log after a state while the run of a turn is requested. The caller must take or drop the result.
func (s *Service) startPrefetch(ctx context.Context, state conversation.State) conversation.Ahead {
	ctx, cancel := s.withTimeout(context.WithoutCancel(ctx))
	a := &prefetch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.records, a.err = s.follow(ctx, state.Session, state.Position, state.Position.Seq)
	}()
	return a
}

// take waits for the records, or for ctx to end.
func (a *prefetch) take(ctx context.Context) (recordStream, error) {
	select {
	case <-a.done:
		a.cancel()
		return a.records, a.err
	case <-ctx.Done():
		a.Drop()
		return nil, context.Cause(ctx)
	}
}

// Drop ends a prefetch that is not needed.
func (a *prefetch) Drop() {
	a.cancel()
	if <-a.done; a.err == nil {
		a.records.Close()
	}
}
