// Package mastra translates the chunks of Mastra agents, workflows and networks into the chunks of the log, and writes the records of the log as such chunks,
// which the clients @mastra/client-js and @mastra/ai-sdk read.
//
// # In: Translator
//
// A Translator follows one run. Pass it Mastra's chunks as they arrive and write the chunks that it returns to the log; End returns the rest at the end of
// the response:
//
//	tr := mastra.New(codec.Run{Session: session.ID})
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
// # Results of a Translator
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
// # Mapping of a Translator
//
//	step-start, step-finish            step_start, step_end with usage, model and reason
//	text-delta                         text_delta
//	reasoning-delta, reasoning-end     thinking
//	source, file                       source_url, source_document, file
//	tool-call-input-streaming-*,
//	tool-call-delta, tool-call         tool_arg_stream_*, tool_start
//	tool-result, tool-error            tool_end
//	tool-call-approval                 tool_approval_request
//	tool-output-denied                 tool_approval_response
//	tool-call-suspended                custom, run_paused
//	tool-output                        the chunk of a sub-agent, workflow or network
//	                                   in its own session, or custom
//	object-result                      output
//	error, tripwire                    error
//	abort                              run_interrupted
//	data-<name>                        custom <name>
//	workflow-step-start, -result       step_start, step_end, each with a custom
//	workflow-step-suspended            custom, run_paused
//	workflow-finish                    output
//	routing-agent-start, -end          step_start, step_end, each with a custom
//	routing-agent-text-delta           text_delta: the original adapter shows it as
//	                                   the text of the answer
//	agent-execution-start, -end,
//	workflow-execution-start, -end     subagent_start, subagent_end, each with a custom
//	agent-execution-event-<type>,
//	workflow-execution-event-<type>    the sub-agent's chunk in its own session
//	tool-execution-start, -end         tool_start, tool_end, each with a custom
//	tool-execution-approval,
//	agent-execution-approval           custom, and tool_approval_request unless the
//	                                   agent has asked: the run pauses
//	…-execution-suspended              custom, run_paused
//	network-object-result              custom, output
//	start, finish, text-start,
//	text-end, reasoning-start, object  no chunk of their own
//	everything else                    custom mastra.<type>, its data the chunk
//
// Everything else covers types without a counterpart, unknown types, and known types that lack a required member. Translate rejects only a line that is
// not a JSON object with a type, or that is over the limits of package chunk.
//
// # What a Translator leaves out
//
// Block boundaries and ids, provider metadata and signatures have no counterpart in the chunk schema. Requests to the model, which hold prompts and the
// definitions of tools, the stacks of errors, and the history that step-finish and finish repeat are left out on purpose, also inside chunks that are kept
// whole: with the history, a run of twenty steps has chunks of megabytes.
//
// # Out: Writer
//
// NewWriter returns the codec.Writer of one turn of a session:
//
//	w := mastra.NewWriter("msg-4")
//	for rec := range records { // from the run_started of the turn
//		frames = w.Append(frames[:0], rec)
//		… write them, flush …
//		if w.Done() {
//			break // the response is over
//		}
//	}
//
// Each chunk is an event of one line. The cursor of a record is an event of its own after its chunks, because the clients lose an event that has an id line; a
// connection that breaks between the two gets the record again. [DONE] is the last event. Clients of workflows expect U+001E after each chunk instead, and no
// cursors: an application makes that of the events.
//
// What a Writer writes is a function of the records, also the ids of its blocks: block-<n> is the n-th text or reasoning of its agent in the turn. A server that
// continues for another passes the earlier records to Append and drops the frames. Records that were removed since then change nothing about what follows.
//
// # Mapping of a Writer
//
//	before the first chunk             start {id, messageId}
//	step_start, or a higher step       step-start {messageId}
//	step_end                           step-finish with usage and reason
//	text_delta, thinking               text-start, -delta, -end; reasoning-…
//	tool_arg_stream_*                  tool-call-input-streaming-*, tool-call-delta
//	tool_start                         tool-call
//	tool_end                           tool-result, or tool-error
//	tool_input_error,
//	tool_output_error                  tool-error
//	tool_approval_request              tool-call-approval
//	tool_approval_response             tool-output-denied, or
//	                                   data-tool-approval-response
//	subagent_start, its records,
//	subagent_end                       start, chunks and finish in tool-output
//	source_url, source_document, file  source, file
//	output                             object-result
//	custom mastra.<type>               the chunk as it came
//	custom tool-output                 the chunk of this type
//	custom                             data-<name>, reduced to letters, digits, . _ -
//	error                              error; data-error if the agent recovers;
//	                                   tripwire with that code
//	run_interrupted                    data-run-interrupted, abort, finish
//	stream_end                         finish
//	stream_failed                      error, step-finish and finish, both with the
//	                                   reason error; after a tripwire nothing
//	stream_paused                      see below
//	state_patch, run_paused,
//	run_resumed, checkpoint_created,
//	step_committed, step_discarded,
//	stream_resync, truncated,
//	executor_superseded                data-<type>, transient
//	suspension_marker                  nothing
//	other types                        nothing
//
// A response ends at a pause if a user or the client must act. If a user must decide or give data, it has no finish. If the client must run tools, it has a
// finish with the reason tool-calls, at which @mastra/client-js runs them. If the agent waits for sub-agents only, the response continues.
//
// The client stops running its tools if a chunk comes out of order, so that a piece of arguments has a start before it in its response, and an outcome its call: a
// call that was open where a response ended is announced again before its outcome, with its input. The result of a tool that the client ran is
// data-tool-result: the client has it, and would run the tool again if its call was announced again.
//
// Chunks of workflows and networks are in the log as events, and are written unchanged; the steps, calls and outcomes that they describe are not written in
// addition. The turn of a workflow ends with workflow-finish, that of a network with its own last chunk. A chunk of a type that a Translator translates is in the log
// as an event only if it lacks members, and would stop the clients: it is data-mastra-chunk. Prompts, stacks and repeated histories are removed from all of these,
// as on the way in.
//
// # What a Writer leaves out
//
// Session, agent, time and step number of a record have no place in chunks, nor has who ran a tool. What Mastra calls transient is shown by clients that honour the
// mark; its adapter for the AI SDK does not, and shows every data part. The adapter drops sub-agents unless asked, reasoning and sources likewise, and turns a file
// with a URL that is not a data URL into a broken one. A second call with the id of another replaces it in clients. Removed records stay in clients that have them.
// Sub-agents more than 32 levels deep are not shown, and an event of a sub-agent is one of the call that started it. Envelopes of Mastra's observe route, which
// continues by index, are not written: clients continue with cursors.
//
// # Snapshots
//
// AppendSnapshot appends the messages of a snapshot in the form in which Mastra stores them and its client loads a thread, with the position.
package mastra
