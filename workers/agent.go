package workers

import "context"

// Agent answers turns. Answer is called from many goroutines, once at a time for each run.
//
// If Answer returns nil, the run completes. Return an error of Step unchanged. Any other error fails the run,
// see Error. When ctx ends, return its error: the run was stopped or moves to another worker.
//
// Answer is called again for the same run after a crash of its worker and after a suspension; the Turn then
// has the steps that were committed before.
type Agent interface {
	Answer(ctx context.Context, t *Turn) error
}

// AgentFunc implements Agent with a function.
type AgentFunc func(ctx context.Context, t *Turn) error

// Answer calls f.
func (f AgentFunc) Answer(ctx context.Context, t *Turn) error { return f(ctx, t) }
