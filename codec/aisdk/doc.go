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
// the snapshot serves. docs/chat.md lists them.
package aisdk
