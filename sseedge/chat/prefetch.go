package chat

import (
	"context"

	"github.com/tailrace/tailrace/internal/conversation"
)

// prefetch follows the log while the command for the next run is published, so that the records of that run are available sooner. It may be nil.
type prefetch struct {
	cancel    context.CancelFunc
	following chan prefetchResult
}

type prefetchResult struct {
	tail recordStream
	err  error
}

// startPrefetch starts to follow the log after a state while the run of a turn is requested. The caller must take or drop the result.
func (s *Service) startPrefetch(ctx context.Context, state conversation.State) conversation.Ahead {
	ctx, cancel := s.withTimeout(context.WithoutCancel(ctx))
	a := &prefetch{cancel: cancel, following: make(chan prefetchResult, 1)}
	go func() {
		tail, err := s.follow(ctx, state.Session, state.Position, state.Position.Seq)
		a.following <- prefetchResult{tail, err}
	}()
	return a
}

// take waits for the recordStream, or for ctx to end.
func (a *prefetch) take(ctx context.Context) (recordStream, error) {
	select {
	case f := <-a.following:
		a.cancel()
		return f.tail, f.err
	case <-ctx.Done():
		a.Drop()
		return nil, context.Cause(ctx)
	}
}

// Drop ends a prefetch that is not needed.
func (a *prefetch) Drop() {
	if a == nil {
		return
	}
	a.cancel()
	if f := <-a.following; f.err == nil {
		f.tail.Close()
	}
}
