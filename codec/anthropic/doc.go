// Package anthropic translates the streams of Anthropic's Messages API and the messages of the Claude Agent SDK into the chunks of the log.
//
// A Translator follows one run. Pass it each event of the API, or each message of the SDK, as JSON, write the chunks that it returns to the log, and call End at the
// end of the response:
//
//	tr := anthropic.New(codec.Run{Session: session.ID})
//	for data := range response { // without the framing
//		chunks, err := tr.Translate(data)
//		if err != nil {
//			return err // not an event: it changed nothing
//		}
//		write(chunks)
//	}
//	write(tr.End())
//
// The events tell which of the two it is. A message of the model is one step of its agent. A Translator has no clock and no I/O, and the same input gives the same
// result. It leaves timestamps at 0; package producers sets them. Package codec/mastra describes how to write the chunks of sub-agents, and those that close a stream.
//
// # Mapping
//
//	message_start                      step_start with the id
//	text, deltas of it                 text_delta
//	thinking, deltas of it             thinking
//	signature_delta,
//	redacted_thinking                  providerMetadata of the thinking that completes it, as
//	                                   the AI SDK sends it back
//	tool_use, input_json_delta         tool_arg_stream_*, tool_start
//	server_tool_use, mcp_tool_use      likewise, with "providerExecuted": true
//	…_tool_result                      tool_end, an error result as its error
//	citations_delta                    source_url of web results, source_document of others,
//	                                   with the citation
//	message_delta, message_stop        step_end with usage, model and reason
//	error                              stream_failed with its type as code
//	a message, not streamed            all of these
//
//	stream_event                       the event inside
//	assistant                          the blocks that no event had; its error: error
//	user with tool_result              tool_end, tool_output_error
//	parent_tool_use_id                 subagent_start, chunks of the session with this id,
//	                                   subagent_end
//	permission_denied                  tool_approval_response, not approved, automatic
//	result: success                    output, custom anthropic.result, stream_end
//	result: error_*                    custom anthropic.result, stream_failed
//	deferred_tool_use                  tool_approval_request, and a pause
//
//	arguments that are not JSON        tool_input_error
//	ping, thinking_tokens, heartbeats,
//	control_request_progress           nothing
//	an event, block, delta or message
//	of another type                    custom anthropic.<type>
//	another member                     the member anthropic of the last chunk of the event, or
//	                                   custom anthropic.rest
//
// A model does not run the tools of a request: a run of the Messages API pauses at the end of a response that has called them, as in codec/openai. The SDK runs its
// tools, and its run ends with its result. The cost and the tokens in a result are totals of the query, so that the last result counts. The tokens of a step are those of
// its message, once.
//
// A sub-agent ends with the result of its call. One in the background, whose call has its result at once, ends with its task_notification.
//
// # What is left out
//
// docs/reference/dialects.md has the list. Events that are kept lose prompts, definitions of tools, keys and paths. What the SDK replaces later (supersedes,
// model_refusal_fallback) stays visible, and an event names it.
package anthropic
