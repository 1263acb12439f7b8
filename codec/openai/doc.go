// Package openai translates the responses of models behind OpenAI's chat completions or Responses API, and behind servers that are compatible with them, and the events of
// the OpenAI Agents SDK, into the chunks of the log.
//
// A Translator follows one run. Pass it the data of each server-sent event, write the chunks that it returns to the log, and call End at the end of the response:
//
//	tr := openai.New(codec.Run{Session: session.ID})
//	for data := range response { // without the framing
//		chunks, err := tr.Translate(data)
//		if err != nil {
//			return err // not an event: it changed nothing
//		}
//		write(chunks)
//	}
//	write(tr.End())
//
// The API is recognized from the data. A response is one step of the run. An agent that asks a model several times may pass all responses to one Translator, with
// End after each, or one after the other as one stream: the first chunk of another response begins the next step.
//
// A Translator has no clock and no I/O, and the same input gives the same result. It leaves timestamps at 0; package producers sets them.
//
// # Output
//
// Translate returns chunks in log order, all of the session in Config. They include the records that close a stream (stream_end, stream_failed, stream_paused) and
// stream_active when a response follows one that paused, but never run_started: package codec/mastra describes how to write them.
//
// A model does not run the tools that it calls. Their calls have no tool_end, and at the end of the response the run pauses: run_paused and stream_paused with the
// reason suspended_client_tool. Such calls have "providerExecuted": false, so a chat client runs its own tools as after a pause of package workers. An agent that runs
// the tools writes their tool_end itself, and passes the next response to the Translator. The Agents SDK is such an agent: a run with its events pauses only for approvals.
//
// # Mapping
//
//	chat completions
//	  delta.content, .refusal, .audio.transcript,
//	  choices.text                             text_delta
//	  delta.reasoning_content, .reasoning,
//	  .thinking                                thinking
//	  delta.tool_calls, .function_call         tool_arg_stream_*, tool_start
//	  delta.annotations                        source_url, source_document
//	  delta.images                             file
//	  message                                  as delta, without what was streamed
//	  delta.reasoning_details,
//	  .thinking_blocks, .extra_content,
//	  tool_calls.extra_content                 providerMetadata of the thinking, the text or the call
//	  finish_reason, usage, model              step_end
//	Responses
//	  output_text.*, refusal.*,
//	  audio transcripts                        text_delta
//	  reasoning_text.*, reasoning_summary_*    thinking
//	  reasoning with encrypted_content         providerMetadata of the thinking
//	  function_call, custom_tool_call          tool_arg_stream_*, tool_start
//	  mcp_call                                 tool_start, tool_end
//	  annotation: url_citation                 source_url
//	  annotation: file_citation                source_document
//	  image_generation_call                    file
//	  completed, incomplete, usage, model      step_end
//	both
//	  error, response.failed                   stream_failed
//	  arguments that are not JSON              tool_input_error
//	  an event of another type                 custom openai.<type>, its data the event or its item
//	  everything else                          custom openai.rest
//	Agents SDK (rawItem in TypeScript, raw_item in Python)
//	  raw_response_event, raw_model_stream_event
//	                                           the event inside; output_text_delta and response_done if no event of the endpoint says it
//	  message_output_created, reasoning_item_created
//	                                           the texts that no event before had
//	  tool_called, handoff_requested           tool_start, if no event before had it; of a tool of the endpoint tool_end too
//	  tool_output, handoff_occurred            tool_end; custom openai.handoff
//	  tool_approval_requested, mcp_approval_*  tool_approval_request, and run_paused at the end; tool_approval_response
//	  agent_updated_stream_event               the agentType of what follows
//	  other items, tool_progress_stream_event  custom openai.<name>
//
// A text, arguments or a message may be a string, an object or an array of parts. What a closing event or the final response has and no event before it had is written
// too. A custom call that a text follows was run by the endpoint: its tool_start has "providerExecuted": true, and no outcome is claimed.
//
// # What is left out
//
// docs/reference/dialects.md has the list. Events that are kept lose prompts, definitions of tools, credentials of MCP servers and encrypted content. The messages of errors are
// Tailrace's own, with a code: those of endpoints contain parts of keys and prompts.
package openai
