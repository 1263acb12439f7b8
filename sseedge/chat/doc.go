// Package chat serves chats to the stock client of the Vercel AI SDK: useChat
// with DefaultChatTransport, in its major versions 6 and 7.
//
//	POST /api/chat            a message, an edit, an answer to a call, or an answer anew
//	POST /api/chat/{id}       the same
//	GET  /api/chat/{id}       what is on its way; 204 when nothing is
//	GET  /api/chat/{id}/stream    the same
//	GET  /api/chat/{id}/snapshot  what a page begins with
//	POST /api/chat/{id}/stop      the running answer ends at its next step
//	POST /api/chat/{id}/answers   one answer to a call
//
// No agent runs here. A request becomes commands on a queue and answers in an
// inbox; a worker does the rest, and what it writes into the log is followed and
// said in the client's words (package codec/aisdk). So any edge serves any chat,
// and a connection that closes stops nothing.
//
// # How a request is decided
//
// Decide is one pure function from a Request and a View, of how the chat stands,
// to a Plan: the paths of spec/helix.md section 6.6. A plan that changes something
// is one step by compare-and-set; when it is done, or somebody else was faster, the
// chat is looked at again and the same request decided anew, until a plan says what
// to answer:
//
//	for {
//		view := look()
//		plan := Decide(request, view)
//		switch {
//		case plan.Store != nil:   // store answers; the first one wins
//		case plan.Command != nil: // ask for a run; there is one command per session
//		default:                  // 204, a refusal, or a stream
//		}
//	}
//
// That is why a request may be repeated at will, by a client whose connection was
// lost, by another tab or at another edge: it finds its steps done, and gets what
// they led to.
//
// The first look of who says something new is a glance: it takes it that no command
// stands, because a run that is asked for behind that is refused where one does. If
// there is anything else to be done or said, the chat is looked at once more.
//
// # How a response ends
//
// Cleanly behind the last word of the message, or where it waits for a person: the
// client sends no answer while a response is open. In every other case the
// connection is aborted, because the client takes a clean end for the whole answer.
package chat
