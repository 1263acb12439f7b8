package workers

import "context"

// Agent answers turns. It is called from many goroutines, once for each run.
//
// Nil ends the run well. An error that Step returned goes back as it is. Any
// other error fails the run; see Error. When ctx ends, return its error: the run
// has been stopped, or is given to another worker.
//
// Answer is called again for the same run after its worker died and after it
// was suspended; then the Turn has what was committed before.
type Agent interface {
	Answer(ctx context.Context, t *Turn) error
}

// AgentFunc is a function as an Agent.
type AgentFunc func(ctx context.Context, t *Turn) error

// Answer calls f.
func (f AgentFunc) Answer(ctx context.Context, t *Turn) error { return f(ctx, t) }
