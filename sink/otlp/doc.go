// Package otlp sends what agents did to a receiver of OpenTelemetry as traces, over OTLP with HTTP and protobuf.
//
// # Spans
//
// Each run, step, call of a tool and wait is a span when it has ended, with the ids of its row: invoke_agent, chat, execute_tool, and wait, in the terms of the
// semantic conventions for generative AI. A turn of a root session with its sub-agents is a trace. Without content in the view, spans have ids, names, times,
// states, codes, tokens and cost; otherwise also gen_ai.input.messages, gen_ai.output.messages, gen_ai.tool.call.arguments and gen_ai.tool.call.result.
//
// A span is sent once for each version of its row that has an end. That is once, with three exceptions: a run that was suspended and then continues under its own
// id, a call whose outcome came after the end of its run, and one whose outcome a cleanup has removed. Their spans are sent again with the same id, and the one with
// the highest tailrace.sequence counts. A run that continues as another run, which is usual after an approval, has a span of its own in the same trace.
//
// # Guarantees
//
// At least once, see package export: a span may come twice, with equal ids and content. Receivers that replace spans by their id, such as Langfuse, show it once;
// others show it twice. A request that fails is tried again, and one that the receiver refuses is divided until the refused span is found, which becomes a dead
// letter. What the receiver rejects in a request that it accepts (partial success) is counted, logged and not sent again.
//
// # What is lost
//
// Sent spans cannot be deleted: a deleted session becomes a span tailrace.session.deleted. Spans of what a cleanup removes stay; that of a step or a call which it
// removes before its end is never sent, so the run of a sub-agent of such a call has a parent that does not exist. Traces are not joined with those of
// the workers, which are sent by themselves.
package otlp
