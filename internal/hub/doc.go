// Package hub fans the log out to many clients. Clients cost storage no requests,
// and no client has a queue or a goroutine of the hub: the hub runs one goroutine
// per feed, one that evicts idle topics, and one for each page of history that is
// being read.
//
// There is one feed per partition, open while the partition has clients and for a
// minute after the last one. The hub sorts its messages by subject before it
// parses them, and drops those of sessions that are not watched. Each watched root
// has a topic: a tail of frames that are encoded once and stored contiguously in
// memory. A client is a Cursor, a position in that tail, advanced by the goroutine
// that net/http started for the request:
//
//	cur, err := h.Subscribe(ctx, hub.Request{Session: s, After: lastSeen})
//	if err != nil {
//		return err // chunk.ErrUnknownSession, ErrEnded, *chunk.TruncatedError …
//	}
//	defer cur.Close()
//	for {
//		batch, err := cur.Next(ctx, heartbeat)
//		if errors.Is(err, io.EOF) {
//			return nil // the session is complete and all of it was returned
//		}
//		…
//		out.Send(batch.Frames, batch.SkipTo)
//	}
//
// A slow client falls behind in the tail. Memory is bounded over all topics: the
// hub evicts the least recently read segments first, and a client whose position
// was evicted reads the log, one page at a time, shared by all cursors that wait
// for the page; the next page is read while the client takes it. Then the client
// continues in the tail. Other clients are not affected.
//
// # Exactness
//
// Each segment in memory states which interval of the stream it holds completely,
// and a Cursor only reads the segment that covers its position. The first segment
// of a topic starts at the position of the feed, so history ends where the tail
// starts, regardless of which of the two was read first.
//
// The ordinals verify this. A Cursor stores the last ordinal of each session that
// it shows and rejects a frame that does not follow it. It then reads the log,
// which explains the gap or fills it; otherwise the client gets a TruncatedError.
//
// A truncation record removes the records that it names from memory. Those before them
// stay, and the next record follows them. So a client in the middle of an answer reads
// on, whether it has the removed records or not, and gets the truncation record. A page of
// the history that was read before the deletes has the removed records, and its clients
// get them before the truncation record.
//
// A takeover that the feed leaves out shows by the ordinals. If a record of the fenced
// writer, which a server does not store, has the ordinal of run_started, it shows by the
// epoch of the next record: only clients that were attached before that get the record.
package hub
