// Package mastra translates the chunks of Mastra agents and workflows into the chunks of the log.
//
// A Translator follows one run. Pass it Mastra's chunks as they arrive and write the chunks that it returns to the log; End returns the rest at the end of
// the response:
//
//	tr := mastra.New(mastra.Config{Session: session.ID})
//	for line := range response {
//		chunks, err := tr.Translate(line)
//		if err != nil {
//			return err // not a Mastra chunk: the line changed nothing
//		}
//		write(chunks)
//	}
//	write(tr.End())
//
// One Translator serves all responses of a run. To continue a run in another process, for example after a crash, create a new Translator and set
// Config.Step to the last step of the run.
//
// A Translator has no clock and no I/O, and the same input gives the same result. It leaves timestamps at 0; package producers sets them.
//
// # Output
//
// Translate returns chunks in log order. AgentID is the session of the chunk: Config.Session, or that of a sub-agent, whose id is the id of its Mastra
// run; a subagent_start in the session of the parent precedes it. The output includes the records that close a stream (stream_end, stream_failed,
// stream_paused) and stream_active when a response follows one that paused. It never includes run_started: the writer opens the runs, because run_started
// carries the fencing epoch. With package producers:
//
//	chunk.SubagentStart    run.Child, which writes it too
//	chunk.StreamEnd        run.End
//	chunk.StreamFailed     run.Fail
//	chunk.StreamPaused     run.Pause
//	chunk.StreamActive     run.Activate
//	any other              run.Emit, of the run whose session the chunk names
//
// # Mapping
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
//	text-end, reasoning-start, object  no chunk of their own
//	everything else                    custom mastra.<type>, its data the chunk
//
// Everything else covers types without a counterpart, unknown types, and known types that lack a required member. Translate rejects only a line that is
// not a JSON object with a type, or that is over the limits of package chunk.
//
// # What is left out
//
// Block boundaries and ids, provider metadata and signatures have no counterpart in the chunk schema. Requests to the model, which hold prompts and the
// definitions of tools, the stacks of errors, and the history that step-finish and finish repeat are left out on purpose, also inside chunks that are kept
// whole: with the history, a run of twenty steps has chunks of megabytes.
package mastra
