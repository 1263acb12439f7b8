// Package mastra reads the chunks of Mastra agents and workflows into ours.
//
// A Translator follows one run. You hand it Mastra's chunks as they arrive, and
// get what to write into the log; End at the end of the response gives the rest:
//
//	tr := mastra.New(mastra.Config{Session: session.ID})
//	for line := range response {
//		said, err := tr.Translate(line)
//		if err != nil {
//			return err // no Mastra chunk: the line changed nothing
//		}
//		write(said)
//	}
//	write(tr.End())
//
// One Translator serves all responses of a run. Who reads a later one elsewhere,
// after a crash perhaps, makes another and says in Config.Step how far the run is.
//
// It is pure: no clock, no I/O, and the same chunks give the same result. The
// timestamps it leaves at 0; producers fills them in.
//
// # What you get
//
// Chunks in the order in which they belong into the log. AgentID is the session
// that says it: Config.Session, or that of a sub-agent, which bears the id of its
// Mastra run and was announced by a subagent_start in the session of its parent
// just before. Among them are the records that close a stream (stream_end,
// stream_failed, stream_paused) and, when a response follows one that paused,
// stream_active. Never among them is a run_started: who writes opens the runs,
// because it carries the fence. With producers that is:
//
//	chunk.SubagentStart    run.Child, which writes it too
//	chunk.StreamEnd        run.End
//	chunk.StreamFailed     run.Fail
//	chunk.StreamPaused     run.Pause
//	chunk.StreamActive     run.Activate
//	any other              run.Emit, of the run whose session the chunk names
//
// # What becomes what
//
//	step-start, step-finish            step_start, step_end with usage and reason
//	text-delta                         text_delta
//	reasoning-delta, reasoning-end     thinking
//	source, file                       source_url, source_document, file
//	tool-call-input-streaming-*,
//	tool-call-delta, tool-call         tool_arg_stream_*, tool_start
//	tool-result, tool-error            tool_end
//	tool-call-approval                 tool_approval_request
//	tool-output-denied                 tool_approval_response
//	tool-call-suspended                custom, run_paused
//	tool-output                        the sub-agent's chunk in its own session,
//	                                   or custom
//	object-result                      output
//	error, tripwire                    error
//	abort                              run_interrupted
//	data-<name>                        custom <name>
//	workflow-step-start, -result       step_start, step_end, each with a custom
//	workflow-step-suspended            custom, run_paused
//	workflow-finish                    output
//	start, finish, text-start,
//	text-end, reasoning-start, object  nothing of their own
//	everything else                    custom mastra.<type>, its data the chunk
//
// Everything else are the types that have no counterpart, those that nobody knows
// yet, and known ones that lack what they need: nothing is refused but what is no
// JSON object with a type, or over the limits of package chunk.
//
// # What does not get into the log
//
// Where text blocks begin and end, ids of blocks, provider metadata and
// signatures have no place in our chunks. Requests to the model, which hold
// prompts and the definitions of tools, the stacks of errors, and the history
// that step-finish and finish repeat (without it a run of twenty steps has chunks
// of megabytes) are left out on purpose, also inside of what is kept whole.
package mastra
