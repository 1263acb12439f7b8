// Package helix writes records as the agent protocol's own events: the wire
// between machines, with the cursor of the record as id: its stream sequence and
// its anchor. The rules are in docs/protocol/stream.md#helix-4.
//
//	id: 17-mgj6k3gb
//	data: {"type":"chunk","chunk":{"type":"text_delta",…},"sequence":17}
//
// Encode is a pure function of a record and the scope it is read in, so that a
// frame is made once for all clients and any edge makes the same bytes. A chunk
// is passed through as it is stored. What happened to the stream itself becomes
// an end, fail, status or truncated event; in the scope of a tree only the
// root's does, because a sub-agent that is through does not end the answer.
//
//	frame := helix.Encode(nil, rec, chunk.ScopeTree)
//	if len(frame) == 0 {
//		// nothing to show: the reader's cursor moves all the same
//	}
package helix
