// Package aisdk writes the records of a session as the UI message stream of the
// Vercel AI SDK, spec/aisdk.md: server-sent events of which each holds one chunk
// that the SDK's browser client, in its major versions 6 and 7, folds into one
// assistant message.
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
// A Message is everything a session says from the record that opens a turn to
// the one that ends it, over suspensions and resumptions. It is a fold of those
// records and of nothing else: whoever reads the same records makes the same
// bytes. So a page that comes back to another edge gets what follows under the
// part ids it knows:
//
//   - A page without a cursor, or with one before the message, gets all of it:
//     Replay of what is there, then Append of what comes.
//   - A page with a cursor inside the message gets what follows: Prime up to the
//     cursor, Replay of the rest that is there, then Append. There is no start, and
//     no part is opened again.
//   - A page that answers a call (a continuation) holds the message already and
//     adds to it: Prime of what it has, Continue, then Append.
//   - A page whose answer was given before gets Prime, Continue and Finish.
//
// Append alone, of records that are long written, would end the response where
// the answer once waited, although it has gone on.
//
// # Names
//
// A text part has the id t<seq>, a reasoning part r<seq>: the sequence of its
// first delta; -<agent> is put behind it for a sub-agent. A tool part has the id
// of its call. A call of a sub-agent is <agent>/<call>, see SplitCallID. The
// second call of one id in a message, which writers should not make, is shown as
// <id>_2, because the client would otherwise write over the first.
//
// # Data parts
//
// What an application says with a custom event is a part, data-<eventName>, and
// stays in the message. So does data-structured, the finished value of
// structured data. All other data-* chunks are transient: the client hands them
// to the application and forgets them, so that the message it builds is the one
// the snapshot serves. A replay leaves those out that say what was going on then.
//
// # Built and loaded
//
// The parts that a client builds are those of the snapshot, but for
//
//   - the id of a reasoning part, which newer clients keep, and the raw text of an
//     input that streams: the snapshot has neither and both,
//   - the filename of a file: no chunk carries it,
//   - in version 6, and there in a replay, the decision on an approval,
//   - providerExecuted of a call that has no outcome, or one that does not say it:
//     the log does not say who runs it, Options.ClientTool does,
//   - the question about a call that nobody decided and that has an outcome: the
//     stream cannot take it back, and a history must not have it,
//   - a step-start that is put behind what the client was asked when the answer
//     ends with that, or asks again without a step of its own: without it the stock
//     predicates post for ever,
//   - the calls of sub-agents that people must answer: they are in the snapshots
//     of the sub-agents' sessions; and the step-start that is put before one, without
//     which the stock predicates never post the decision, because the call beside
//     it waits for the sub-agent,
//   - structured data that began in an earlier turn and still grew at its end.
//
// # What a cut can do
//
// The frames of one record should be written at once. A client that was cut
// between two of them, and keeps what it built, has the cursor of the record
// before and is sent both again. Of what comes twice then
//
//   - an outcome, a denial, the input of a call of ours, a transient part and one
//     with an id, the end of a step change nothing,
//   - the end of a block stops the client, which must load the page anew: nothing
//     that is sent before it can tell whether the block is still open there,
//   - the beginning of a block or of a step, and a part without an id, are there
//     twice until the page is loaded anew,
//   - the input of a call of the browser makes it run the call again.
//
// Another order of the frames would not help: with the end of a block behind the
// part that ends it, that part would be shown twice, in place of an error that is
// seen. Frames of one write come apart only when a connection breaks within their
// few hundred bytes.
package aisdk
