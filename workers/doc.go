// Package workers is the SDK for agents.
//
// An Agent is a function that answers a turn. It gets the history of the session and writes its answer in
// steps:
//
//	w, err := workers.New(js, workers.Config{Agents: map[string]workers.Agent{
//		"support": workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
//			return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
//				for piece := range model.Stream(ctx, t.Messages()) {
//					if err := s.Text(ctx, piece); err != nil {
//						return err
//					}
//				}
//				s.MarkFinal()
//				return nil
//			})
//		}),
//	}})
//	if err != nil {
//		return err
//	}
//	return w.Run(ctx) // until ctx ends
//
// Any number of processes may serve the same agents; each command goes to one of them.
//
// # Failover
//
// All state of an agent is in the log: Turn returns the history and the custom state, and a Step writes to
// them. An agent must not keep anything between two steps that it cannot read from the Turn. A worker may
// then crash at any time:
//
//   - Another worker takes the run over within seconds. The writer of the crashed worker is fenced, so a
//     process that was only suspended cannot write any more.
//   - The output of the uncommitted step is rolled back, readers get a stream_resync, and the agent is called
//     again with the history up to the last committed step.
//   - After a step with MarkFinal the agent is not called again.
//
// A tool may therefore run more than once. Call.IdempotencyKey returns the same key each time.
//
// # Steps
//
// A step is the output of one model call, with its tool calls. If its function returns nil, Step waits until
// all of it is stored and commits it: a checkpoint. If the function returns an error, either return that
// error from the agent, and the run fails and keeps its output, or call Step again, and the output of the
// failed step is rolled back first. Errors whose names begin with Err are the SDK's; return them unchanged:
//
//	if err := t.Step(ctx, think); err != nil {
//		return err // also ErrSuspended, ErrInterrupted, ErrAborted
//	}
//
// # Suspension
//
// A call that a browser runs (Call.AskClient), that a user must approve (Call.AskApproval) or that another
// agent runs (Call.Delegate) suspends the run when its step is committed: Step returns ErrSuspended, no
// memory or goroutine is kept, and the worker is free. After the last answer the agent is called again, by
// any worker. The outcomes are then in the history; Step.ApprovedCalls returns the calls that were approved
// and that the agent must run.
//
// # Stop requests
//
// A stop request takes effect at the next step boundary at the latest; the context of a running step ends at
// once. An interrupted run keeps its output and may be resumed; an aborted run has failed. When the context
// of Run ends, a running step has Config.ShutdownTimeout to finish; then another worker takes the run over.
// An agent that does not return within five seconds after its context has ended is abandoned: its later
// writes are rejected.
//
// # Errors
//
// If an agent returns an *Error, its message and code are stored and shown to users. Any other error is
// logged, and users see only that the run failed.
package workers
