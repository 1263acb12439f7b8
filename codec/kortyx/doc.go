// Package kortyx translates the chunks of Kortyx agents to chunks of the log, and writes the records of a turn as the server-sent events that Kortyx's clients
// read.
//
//	w := kortyx.NewWriter(nil)
//	for rec := range records { // from the run_started of the turn
//		frames = w.Append(frames[:0], rec)
//		… write them, flush …
//		if w.Done() {
//			break // [DONE] is in the frames: close the connection
//		}
//	}
//
// Neither has a clock or I/O, and the same input gives the same output. Ids are sequences of the log, so a process that passes the earlier records to Append and
// drops the frames continues exactly.
//
// # From the log
//
//	before the first record               session; again in a response that a resumed run opens
//	text_delta                            text-start, text-delta, text-end; node = agentType, opId = runId, segmentId = block-<sequence>
//	tool_start                            tool-call-start
//	tool_end                              tool-call-result, or tool-call-error for a failure
//	tool_input_error, tool_output_error   tool-call-error
//	tool_approval_request                 interrupt, id tool:<call>, also of a sub-agent
//	tool_approval_response                tool-call-result with isError for a denial; the outcome that follows is left out
//	custom                                structured-data final, dataType = eventName, streamId custom:<sequence>
//	custom structured-data                structured-data; the same for structured-data-invalidated
//	custom kortyx.<type>                  the chunk of a Kortyx agent: status, transition, tool-result, interrupt
//	output                                structured-data final, dataType output, streamId output:<runId>
//	source_url, source_document, file     structured-data final, dataType source or file, streamId <dataType>:<sequence>
//	state_patch                           structured-data set and append, streamId state:<session>
//	checkpoint_created                    the last one as checkpoint before done
//	stream_resync                         structured-data-invalidated for the streams since the checkpoint, the state, status
//	error, stream_failed                  error, done; a recoverable error is a status
//	stream_end, stream_paused             done
//	run_interrupted                       done
//	subagent_end, unknown types           structured-data final, dataType native.chunk, streamId native:<sequence>, data {chunk, sequence}; decisions of users too
//	anything else                         left out
//
// What is lost: the time and the step of each chunk, reasoning, streamed arguments, steps with their usage, the chunks of sub-agents, the code of an error, a
// result that is neither text nor object nor array (it is its JSON text), and which tool a sub-agent's approval is part of. Text that was written stays in a
// client after its records were removed.
//
// A response ends with done and [DONE] where the turn ends, or waits for the user. done comes first: the clients cannot tell a lost connection from an end
// without it. A turn that waits only for sub-agents continues in the same response.
//
// # Structured data
//
// Kortyx's clients stop reading at a piece of structured data that they cannot apply. The Writer applies each piece with internal/structured, and drops and counts
// one that is refused. Therefore it also uses no id of a stream twice after a final: not for a second output, and not after records were removed or a stream was
// invalidated; most clients ignore the invalidation. Then <id>@<sequence> is the id.
//
// The custom state is kept under one name, "state", so that all of it can be replaced. A patch is written as a set of each place that it changes, or as append. A
// path of Kortyx cannot name everything: a key that is empty, has a dot, has only digits, or is one that every JavaScript object has. The nearest place around it
// that a path can name is set instead. The first patch of a turn sets the whole state, because a client begins a response without one; so NewWriter takes
// it. A state over the limits of internal/structured, for example with more than 20,000 values, is not written.
//
// A client that continues a turn in another response may come from another dialect. Resume writes the session, the state and the structured data that is not final.
//
// # Resume tokens
//
// The token of a question is a secret that resumes a run in a user's name. The Translator keeps the tokens of a Kortyx agent out of the log. The Writer
// writes empty tokens: an application answers with the route of the server for approvals, whose client is authenticated.
//
// # To the log
//
//	text-delta                  text_delta; a space before it where a block begins, unless one side has white space
//	message                     text_delta, unless the run has written text
//	tool-call-start             tool_start, once per call
//	tool-call-result            tool_end with structuredContent, or else content; with isError the content is the error
//	tool-call-error             tool_end
//	structured-data             custom structured-data
//	structured-data-invalidated custom structured-data-invalidated
//	interrupt                   tool_approval_request for the id tool:<call>; otherwise custom kortyx.interrupt and run_paused
//	checkpoint                  checkpoint_created
//	error                       error, and stream_failed at the end of the response
//	done                        stream_end, or stream_paused after an interrupt, at the end of the response
//	session, trace, text-start,
//	text-end                    no chunk of their own
//	anything else               custom kortyx.<type>, its data the chunk
//
// Anything else covers status, transition, tool-result, unknown types, and known types that lack a required member. What is lost:
// the ids and boundaries of blocks, nodes if the agent has a type, the data of done, which is the internal state of the workflow. Other members are the data of custom
// kortyx.rest, see docs/reference/dialects.md.
//
// A response without done was cut off, and the run failed. So did one with an error, with or without done.
//
// # Snapshots
//
// AppendContent has what a page loads before it follows the stream: messages, the states of structured data, and pending requests in the forms
// of Kortyx's React client. The stream of values that are not structured data of a Kortyx agent has another id there than live: the snapshot does not have the
// sequence of the record.
package kortyx
