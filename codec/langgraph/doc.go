// Package langgraph translates the protocol events of LangGraph into the chunks of the log: the objects that streamEvents(input, {version: "v3"}) yields, with members
// in snake case or camel case. A Writer writes chunks as such events, for the clients of LangChain's Agent Streaming Protocol.
//
// A Translator follows one run. Pass it each event as JSON, write the chunks that it returns to the log, and call End at the end of the response:
//
//	tr := langgraph.New(codec.Run{Session: session.ID})
//	for data := range response { // without the framing
//		chunks, err := tr.Translate(data)
//		if err != nil {
//			return err // not an event: it changed nothing
//		}
//		write(chunks)
//	}
//	write(tr.End())
//
// A message of a model is one step of its agent. A Translator has no clock and no I/O, and the same input gives the same result. It leaves timestamps at 0; package
// producers sets them. Package codec/mastra describes how to write the chunks of sub-agents, and those that close a stream.
//
// # Mapping
//
//	messages: message-start            step_start with the id
//	text, text-delta                   text_delta
//	reasoning, reasoning-delta         thinking
//	tool_call_chunk, tool-call-delta,
//	tool_call                          tool_arg_stream_*, tool_start
//	invalid_tool_call                  tool_input_error
//	server_tool_call                   tool_start with "providerExecuted": true
//	server_tool_result                 tool_end, with an error if it failed
//	annotations of a text              source_url, source_document
//	file, image, audio, video          file
//	message-finish, usage              step_end with usage, model and reason
//	error of a message                 error
//
//	tools: tool-started                tool_start, if no message has it
//	tool-finished, tool-error          tool_end, tool_output_error
//
//	lifecycle of a sub-graph           subagent_start, subagent_end
//	lifecycle of the root graph        stream_end, stream_failed, stream_paused
//
//	input.requested, __interrupt__     with action_requests: tool_approval_request
//	in values and updates              {type: "tool", tool_call}: the call, which the page runs
//	                                   another value: a call of langgraph.interrupt
//	custom of the program              custom <name>, or custom langgraph.custom
//	the last values of the root graph  output
//	other values                       nothing
//	an event, block or delta of
//	another type                       custom langgraph.<type>
//	another member                     the member langgraph of the last chunk of the event, or
//	                                   custom langgraph.rest
//
// A namespace is a sub-agent if it is a graph: it has state, checkpoints or tasks of its own, another namespace is below it, or its lifecycle has a tool call as cause.
// The other namespaces are nodes; their messages are those of the graph around them. A node that sends a message while another node of the graph sends one is a
// sub-agent too, so that the texts do not mix. A sub-graph that runs while its node runs one tool belongs to the call of that tool.
//
// LangGraph runs its tools, so an open call does not pause a run. An interrupt does.
//
// # What is left out
//
// docs/reference/dialects.md has the list: the state in values and tasks, messages of users and systems, and what must not be stored.
package langgraph
