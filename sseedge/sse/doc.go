// Package sse is the wire of server-sent events, and nothing but the wire: it
// knows frames, cursors and deadlines, not sessions.
//
// A Writer owes its caller three things. Nothing stays in a buffer: when Send
// returns, the frames were handed to the connection. Nobody waits for a client
// that does not read: a write without progress for the patience of the Writer
// fails. And no text of a stranger becomes a field: an id or an event name with
// CR, LF or NUL is refused, data is split into lines.
//
//	out := sse.NewWriter(w, 10*time.Second)
//	if err := out.Open(0); err != nil { // headers go out at once
//		return err
//	}
//	if err := out.Send(frames, lastID); err != nil {
//		panic(http.ErrAbortHandler) // cut, so that the client does not take it for the end
//	}
//
// Resume reads where a client wants to go on, from the headers and the query;
// the page of that function says which of them wins, and why.
//
// [HTML, section 9.2]: https://html.spec.whatwg.org/multipage/server-sent-events.html
package sse
