// Package sse is the wire format of server-sent events: frames, cursors and deadlines, without sessions.
//
// A Writer does not buffer: when Send returns, the frames were handed to the connection. It does not wait for a client that does not read: a write without
// progress for the write timeout fails. And text of clients cannot add fields: an id or an event name with CR, LF or NUL is rejected, data is split into lines.
//
//	out := sse.NewWriter(w, 10*time.Second)
//	if err := out.Open(0); err != nil { // sends the headers at once
//		return err
//	}
//	if err := out.Send(frames, lastID); err != nil {
//		panic(http.ErrAbortHandler) // aborts, so that the client does not take it for the end
//	}
//
// ReadCursors reads the cursors of a client from the headers and the query; its documentation has their precedence.
//
// [HTML, section 9.2]: https://html.spec.whatwg.org/multipage/server-sent-events.html
package sse
