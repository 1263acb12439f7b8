// Package commands is the work queue between those who want an agent to run and
// the workers that run it.
//
// Whoever wants work requests it with a Command: to execute a run, to resume one
// that is paused, to abort one. It is kept in the stream TR_COMMANDS, on
// tr.commands.<tenant>.<agentType>.<session>, until a worker has done it, and a
// session has one at a time:
//
//	queue, err := commands.New(js, commands.Config{})
//	session := chunk.RootSession("acme", "s1")
//	err = queue.Request(ctx, commands.Command{
//		Kind:      commands.Execute,
//		Session:   session,
//		AgentType: "support",
//		RunID:     commands.ExecuteRunID(session, "m-1"),
//		Input:     []chunk.InputMessage{{Content: "Where is my parcel?"}},
//	}, 0) // nil: stored, exactly once however often it is repeated
//	if busy, ok := errors.AsType[*commands.BusyError](err); ok {
//		return conflict(busy.Command) // somebody else's is waiting or at work
//	}
//
// A worker serves one or more agent types. Any number of workers share a type:
//
//	err = queue.Serve(ctx, []string{"support"}, func(ctx context.Context, c commands.Command) error {
//		return answer(ctx, c) // nil: done, the command is gone
//	})
//
// A worker that pauses a run until a deadline has itself reminded with PublishAt.
// The Expire comes to whatever worker is there by then, beside the session's
// command and not in its place.
//
// You owe the queue one thing: handling a command must be safe to repeat. A
// command is delivered at least once. It comes again within AckWait when its
// worker dies, at once when its worker is told to stop, and after a pause when
// the handler returns an error. The log of the session says how far the last
// attempt came, and the epoch of its writer keeps a worker that was only
// thought dead from writing beside its successor (design.md, sections 3 and 8).
package commands
