// Package aisdk writes the records of a session as the UI message stream of the Vercel AI SDK: each server-sent event holds one chunk, which the SDK's browser
// client, in its major versions 6 and 7, folds into one assistant message. The rules are in docs/protocol/aisdk.md.
//
//	m := aisdk.New("msg-4", aisdk.Options{ClientTool: isClientTool})
//	for rec := range records { // from the run_started of the turn
//		frames = m.Append(frames[:0], rec)
//		… write them, flush …
//		if m.Done() {
//			break // [DONE] is in the frames: the response is over
//		}
//	}
//
// A message covers the records of a session from the record that opens a turn to the record that ends it, across suspensions and resumptions. The output
// depends on those records only, so any process that reads the same records writes the same bytes. A browser client that reconnects to another edge
// therefore gets the rest under the part ids that it has:
//
//   - A client without a cursor, or with a cursor before the message, gets all of it: Replay of the stored records, then Append.
//   - A client with a cursor inside the message gets the rest: Advance up to the cursor, Replay of the stored records after it, then Append. There is no
//     start, and no part is opened again.
//   - A client that answers a call (a continuation) has the message and extends it: Advance over what it has, Continue, then Append.
//   - A client whose answer was given before gets Advance, Continue and Finish.
//
// Append alone, of records that were stored earlier, would end the response where the answer was suspended, although it has been resumed since.
//
// # Names
//
// A text part has the id t<seq>, a reasoning part r<seq>: the sequence of its first delta, followed by -<agent> for a sub-agent. A tool part has the id of
// its call. A call of a sub-agent is <agent>/<call>. The second call with one id in a message, which writers should not produce, is shown
// as <id>_2, because the client would otherwise overwrite the first.
//
// # Data parts
//
// A custom event of an application is a part, data-<eventName>, and stays in the message. So does data-structured, the finished value of structured data.
// All other data-* chunks are transient: the client passes them to the application and does not keep them, so the message that it builds matches the
// snapshot. A replay leaves out the transient chunks that describe the state at the time.
//
// # Snapshots
//
// Snapshot and Page return what a page loads before it follows the stream: the conversation with the parts that a client would have built from it. With
// SnapshotOptions.SubAgents, Snapshot has the parts of a stream with Inline.
//
// # Hidden records
//
// A server that hides records from a client passes each of them to Hide instead of Append, and to Write with false. The views of an edge determine what is hidden.
//
// # Built and loaded
//
// The parts that a client builds are those of the snapshot, except for
//
//   - the id of a reasoning part, which newer clients keep, and the raw text of an input that streams: the snapshot has neither and both,
//   - the filename of a file: no chunk carries it,
//   - in version 6, and there in a replay, the decision on an approval,
//   - providerExecuted of a call without an outcome, or whose outcome does not have it: the log does not record where it runs, Options.ClientTool decides,
//   - the approval request of a call that has an outcome without a decision: the stream cannot remove it, and a history must not have it,
//   - a step-start after the requests to the client when the answer ends with them, or asks again without a step of its own: without it the stock
//     predicates post indefinitely,
//   - the step-start of a removed step, which reset-step leaves, if the retried step has no part but those of sub-agents, as under a view,
//   - the calls of sub-agents that users must answer: without SnapshotOptions.SubAgents they are in the snapshots of the sub-agents' sessions; and the
//     step-start before such a call, without which the stock predicates never post the decision, because the call next to it waits for the sub-agent,
//   - structured data that began in an earlier turn and was incomplete at its end.
//
// With Inline and SnapshotOptions.SubAgents the parts of each agent have the same order, but those of different agents do not interleave: the output of a
// sub-agent follows the call that started it. Besides,
//
//   - structured data of a sub-agent is a part for each of its records in the stream, and one part with the value in the snapshot,
//   - a text of a sub-agent that continues while the answer begins or ends a step, or suspends, is two parts in the stream,
//   - what a sub-agent writes after the answer has ended or waits for the user is in the snapshot only,
//   - the output of a sub-agent whose start a truncated record removed is only in a stream that had it before: a replay leaves it out.
//
// # Broken connections
//
// Write the frames of one record at once. A client that is disconnected between two of them, and keeps what it built, has the cursor of the record before
// and gets both again. Of the frames that it gets twice
//
//   - an outcome, a denial, the input of a call that runs on the server, a transient part and a part with an id, and the end of a step change nothing,
//   - the end of a block stops the client, which must reload the message: no frame sent before it can tell whether the block is still open there,
//   - the start of a block or of a step, and a part without an id, appear twice until the client reloads the message,
//   - the input of a call of the browser makes it run the call again.
//
// Another order of the frames would not help: with the end of a block after the part that ends it, that part would be shown twice instead of a visible
// error. Frames of one write are separated only if a connection breaks within their few hundred bytes.
//
// # Reading a server of the AI SDK
//
// A Translator does the reverse: it reads the stream that a server of the AI SDK writes, and RequestMessages returns what is posted to it.
//
//	start-step, finish-step            step_start, step_end; the last one with the reason of finish
//	text-delta                         text_delta
//	reasoning-delta, reasoning-end     thinking
//	tool-input-start, -delta           tool_arg_stream_start, _delta
//	tool-input-available               tool_arg_stream_end if it streamed, tool_start
//	tool-input-error                   tool_input_error
//	tool-output-available, -error      tool_end
//	tool-approval-request              tool_approval_request
//	tool-approval-response,
//	tool-output-denied                 tool_approval_response, once
//	source-url, source-document, file  source_url, source_document, file
//	data-<name>                        custom <name>
//	start, message-metadata, finish    custom message-metadata for their metadata; model (modelId), provider, usage and totalUsage in them also in step_end
//	a preliminary output               custom tool-output-preliminary
//	error                              error, and the run fails
//	abort                              run_interrupted
//	finish                             the run ends, or pauses if a call is open: not one that the provider of the model runs (providerExecuted), and not
//	                                   one that a rule of the server has decided (isAutomatic)
//	text-start, text-end,
//	reasoning-start                    no chunk of their own
//	everything else                    custom aisdk.<type>, its data the part
//
// Everything else covers the types of version 7 that have no counterpart, unknown types, and known ones that lack a required member. Members without a counterpart
// are in the member "part" of the chunk, which a MessageWriter, a Snapshot and RequestMessages read: the id and transient of data, dynamic (false) and title of a
// call, providerMetadata, toolMetadata, and where a text begins. All other members that were not read are the data of custom aisdk.rest, except for those that
// docs/reference/dialects.md lists. A chunk that begins a call has "providerExecuted": that of the part, false without one.
package aisdk
