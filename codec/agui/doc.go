// Package agui speaks the AG-UI protocol, version 1.0 (https://docs.ag-ui.com): it writes the records of a session as its events, which @ag-ui/client folds into
// messages and a state, and translates the events of an agent to chunks. It has no clock and no I/O.
//
//	w := agui.New("msg-1", agui.Options{})
//	for rec := range records { // from the run_started of the turn
//		frames = w.Append(frames[:0], rec)
//		… write them, flush …
//		if w.Done() {
//			break // RUN_FINISHED or RUN_ERROR is in the frames
//		}
//	}
//
// The types:
//
//   - Writer: records to events, one turn of a session.
//   - AppendContent: what a client loads before it follows the stream.
//   - ParseRunInput: the RunAgentInput that a client posts.
//   - Translator: events of an agent to chunks.
//   - AppendRunInput: the RunAgentInput that is posted to an agent.
//
// # From records to events
//
//	run_started                        RUN_STARTED with the messages of the users as input; metadata.replaces,
//	                                   metadata.parent; STATE_SNAPSHOT with Options.State; during a run: CUSTOM
//	step_start, step_end               STEP_STARTED, STEP_FINISHED with metadata.usage and .finishReason
//	text_delta                         TEXT_MESSAGE_*
//	thinking                           REASONING_*, REASONING_MESSAGE_*
//	tool_arg_stream_*, tool_start      TOOL_CALL_START, _ARGS, _END
//	tool_end, tool_output_error,
//	tool_input_error                   TOOL_CALL_RESULT; a failure has metadata.error and .errorCode
//	tool_approval_request              an interrupt in the outcome of RUN_FINISHED
//	tool_approval_response             CUSTOM; a denial also TOOL_CALL_RESULT
//	state_patch                        STATE_DELTA; STATE_SNAPSHOT if it replaces the whole state
//	file, source_url, source_document  ACTIVITY_SNAPSHOT of the type file or source
//	structured data, complete          ACTIVITY_SNAPSHOT of the type structured-data
//	custom                             CUSTOM with its name
//	subagent_start, subagent_end       SUBAGENT_STARTED, SUBAGENT_FINISHED or SUBAGENT_ERROR
//	stream_paused                      RUN_FINISHED: interrupt, or success with pendingToolCallIds
//	stream_end                         RUN_FINISHED with the final output as result
//	run_interrupted                    CUSTOM, RUN_FINISHED: cancelled
//	stream_failed                      RUN_ERROR; RUN_FINISHED: cancelled if a user stopped the run
//	error, output, run_paused, run_resumed, checkpoint_created, step_committed, step_discarded,
//	stream_resync, executor_superseded, truncated
//	                                   CUSTOM tailrace.<type>
//	suspension_marker, unknown types   none
//
// A run that waits for approvals ends with an interrupt for each: the id is that of the approval, the answer is {"approved":true}. If it also waits for calls of
// the client, their ids are in metadata.pendingToolCallIds, because that outcome has no place for them. A run that waits for calls of the client only ends
// successfully. A pause for another reason is an interrupt with the id of the run.
//
// # Messages
//
// A step of an answer is several messages: each text, each reasoning, each activity, and the calls. Calls are in the message of the text before them, if nothing
// else is between, so that the conversation is one that models accept. The id of a message is <answer>-<sequence>-<number>: the sequence of the record that opened
// the step, and the number of the message in the step. That of a result is <answer>-result-<call>. A message of a user has the id that its client gave to it.
//
// A call of a sub-agent has the id <session>/<call>. The second call with one id in a turn, which agents should not produce, is shown as
// <id>_2.
//
// The client appends to the text of arguments and cannot replace it. If a record has other arguments than were streamed, they are in metadata.arguments of the
// call, and clients use these.
//
// # Reconnecting
//
// AG-UI declares resumable transports, and has no mechanism for them. Ours is a proposal: the last event of each record has the position in the log as its SSE id;
// a client posts it back as Last-Event-ID, or as lastEventId in the body, at the top level or in forwardedProps (@ag-ui/client removes members that it does not
// know). The response begins with Resume. The client keeps its messages between two calls of runAgent, and continues them.
//
// The client ignores ids, so an application takes them from the body in its fetch function. The same function should pass whole events on, and end the body when
// the connection breaks, instead of passing the error on: at an error the client drops the events that it has received and not yet applied, and at the end it reads
// an event that is cut. The id would not be that of what the client has. An application that has seen the end of the run does not reconnect: the response is 204.
// e2e/dialects/agui/client.mjs has such a function.
//
// Write the frames of one record at once. A client that is disconnected between two of them gets all of them again, and shows a piece of arguments, a result or an
// activity of that record twice until it loads the snapshot.
//
// # Sent and loaded
//
// The messages and the state that a client has are those of the snapshot, except for
//
//   - events of the application: AG-UI has no message for them,
//   - metadata.arguments of calls, and errorCode of results, which only the stream has,
//   - the order of the results of parallel calls: the client has them as they came,
//   - results that the client sent itself, under the ids that it gave to them, see Options.Omit,
//   - messages of sub-agents, which the snapshots of their sessions have,
//   - what a truncated record removed: the client gets CUSTOM tailrace.truncated, and loads the snapshot,
//   - calls of an earlier turn: a call that has an id of one is merged into it by the client, and an outcome that comes a turn later is in the snapshot only,
//   - a state patch that only one side rejects: fast-json-patch refuses names of the object prototype, package fold empty names and large states,
//   - structured data that began in an earlier turn and was incomplete at its end.
//
// # From events to chunks
//
//	STEP_STARTED, STEP_FINISHED        step_start, step_end; output outside of steps opens one for each message
//	TEXT_MESSAGE_*                     text_delta
//	REASONING_*, THINKING_*            thinking
//	TOOL_CALL_*                        tool_arg_stream_*, tool_start, tool_end
//	STATE_SNAPSHOT, STATE_DELTA        state_patch
//	MESSAGES_SNAPSHOT                  what the events before it did not have
//	ACTIVITY_SNAPSHOT of a Writer      file, source_url, source_document
//	CUSTOM                             custom
//	SUBAGENT_*                         subagent_start, subagent_end, and chunks in the session of the sub-agent
//	RUN_FINISHED: success              stream_end; stream_paused if a call has no result: the client runs it
//	RUN_FINISHED: interrupt            tool_approval_request, or a call of InterruptTool, and stream_paused
//	RUN_FINISHED: cancelled            stream_failed with the code aborted
//	RUN_ERROR                          stream_failed
//	everything else                    custom agui.<TYPE>, its data the event
//
// *_CHUNK events are read like those that they abbreviate. Everything else covers RAW, other activities, encrypted reasoning, messages that are not of the agent,
// events of sub-agents that were not started, unknown types, and known types that lack a required member. rawEvent, which may have prompts, is left out.
//
// Two messages of the agent within one step of the agent become one text, because the log has no boundary between them. A result is a text in AG-UI: one that is a
// JSON object or array is stored as that value, any other as a string. The tokens of a run are those of a step_end for each model, with its name and provider, unless the steps had theirs.
package agui
