// Package hub fans a log out to many clients without asking storage for any of
// them, and without a queue or a goroutine for any of them: it runs one for each
// feed, one that sweeps, and one for each page of history being read.
//
// There is one feed per partition. Its messages are sorted by subject before
// anybody looks inside; what belongs to no watched session is dropped there.
// Every watched root has a topic: a tail of frames, encoded once, back to back
// in memory. A client is a Cursor, a place in that tail, moved by the goroutine
// that net/http gave to its request:
//
//	cur, err := h.Subscribe(ctx, hub.Request{Session: s, After: lastSeen})
//	if err != nil {
//		return err // chunk.ErrUnknownSession, ErrEnded, *chunk.TruncatedError …
//	}
//	defer cur.Close()
//	for {
//		batch, err := cur.Next(ctx, heartbeat)
//		if errors.Is(err, io.EOF) {
//			return nil // the session is complete and all of it was handed out
//		}
//		…
//		out.Send(batch.Frames, uint64(batch.Mark))
//	}
//
// A slow client falls behind in the tail. Memory is bounded over all topics; what
// was read least recently goes first, and a client that stands before it reads
// the log: one page at a time, shared by all that wait for it. Then it is in the
// tail again. Nobody else notices.
//
// # What makes it exact
//
// Every segment of memory says which interval of the stream it holds completely,
// and a Cursor only ever takes the segment that covers its place. The first
// topic begins at the position of the feed, so that history ends where the tail
// begins, whichever of the two was read first.
//
// That is the claim; the ordinals are the proof. A Cursor remembers the last
// ordinal of each session it shows and refuses a frame that does not follow. The
// log is then asked: it explains the hole, or fills it, or the client is told.
package hub
