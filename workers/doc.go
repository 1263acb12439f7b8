// Package workers is the SDK for those who write agents.
//
// An Agent is a function that answers a turn. It is given what was said so far
// and says, step by step, what it has to say:
//
//	w, err := workers.New(js, workers.Config{Agents: map[string]workers.Agent{
//		"support": workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
//			return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
//				for piece := range model.Stream(ctx, t.Messages()) {
//					if err := s.Text(ctx, piece); err != nil {
//						return err
//					}
//				}
//				s.Final()
//				return nil
//			})
//		}),
//	}})
//	if err != nil {
//		return err
//	}
//	return w.Run(ctx) // until ctx ends
//
// Any number of processes serve the same agents; each command goes to one.
//
// # What you hold, and what you owe
//
// A Turn is the whole memory of an agent. Everything it knows is in the history
// and the state, which are folded from the log, and whatever must survive is put
// there by a Step. That is what you owe: keep nothing between two steps that you
// could not read from the Turn. In return a worker may die at any moment:
//
//   - Another one takes the run over within seconds. The writer of the dead one
//     is fenced, so a process that was only asleep writes nothing any more.
//   - What the unfinished step had said is taken back, readers are told
//     (stream_resync), and the agent is called again with the history up to the
//     last committed step.
//   - After a step that was marked Final the agent is not called again.
//
// A tool may therefore run more than once. Step.IdempotencyKey gives it the same
// key each time.
//
// # Steps
//
// A step is what one call of a model says and does. When its function returns
// nil, everything is stored and the step is committed: a checkpoint. When it
// returns an error, return that error from the agent and the run fails with what
// was said so far, or call Step again, and what the failed step said is taken
// back first. The errors that begin with Err are the SDK's; return them:
//
//	if err := t.Step(ctx, think); err != nil {
//		return err // also ErrSuspended, ErrInterrupted, ErrAborted
//	}
//
// # Waiting
//
// A call that a browser must run (Call.AskClient), a person must allow
// (Call.AskApproval) or another agent does (Call.Delegate) suspends the run when
// its step is committed: Step returns ErrSuspended, nothing waits in memory, and
// the worker is free. When the last answer is in, the agent is called again, in
// any worker. The outcomes are in its history by then; what was approved is in
// Step.Granted, for you to run.
//
// # Stopping
//
// Whoever presses stop is heard at the next step boundary at the latest, and the
// context of the step that is under way ends at once. An interrupted run keeps
// what it has said and may be resumed; an aborted one has failed. When Run is
// told to stop, a step has Config.Grace to finish; then the run is another
// worker's. An agent that does not return within five seconds after its context
// has ended is left behind: nothing that it says later counts.
//
// # Errors
//
// An *Error that an agent returns is told to people with its message and code.
// Any other error is logged, and people hear only that something went wrong.
package workers
