// Package commands is the work queue between those who want an agent to run and
// the workers that run it.
//
// Whoever wants work publishes a Command. It is kept in the stream TR_COMMANDS,
// on tr.commands.<tenant>.<agentType>.<session>, until a worker has done it:
//
//	queue, err := commands.New(js, commands.Config{})
//	err = queue.Publish(ctx, commands.Command{
//		Kind:      commands.Execute,
//		Session:   chunk.RootSession("acme", "s1"),
//		AgentType: "support",
//		RunID:     "r1",
//		Input:     []chunk.InputMessage{{Content: "Where is my parcel?"}},
//	}) // nil: stored, exactly once however often it is repeated
//
// A worker serves one or more agent types. Any number of workers share a type:
//
//	err = queue.Serve(ctx, []string{"support"}, func(ctx context.Context, c commands.Command) error {
//		return answer(ctx, c) // nil: done, the command is gone
//	})
//
// You owe the queue one thing: handling a command must be safe to repeat. A
// command is delivered at least once. It comes again within AckWait when its
// worker dies, at once when its worker is told to stop, and after a pause when
// the handler returns an error. The log of the session says how far the last
// attempt came, and the epoch of its writer keeps a worker that was only
// thought dead from writing beside its successor (design.md, sections 3 and 8).
package commands
