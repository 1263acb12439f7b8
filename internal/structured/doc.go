// Package structured assembles values that agents send in pieces, in the form of Kortyx. It has no clock and no I/O.
//
// A structured-data chunk names a stream and changes the value of the stream in one of four ways: it sets a place, appends items to an array, appends text
// to a string, or replaces the whole value and completes the stream.
//
//	{"type":"structured-data","streamId":"s","dataType":"report","kind":"text-delta","path":"sections.0.title","delta":"Sum"}
//
// A State holds the streams of one session:
//
//	var state structured.State
//	for text := range chunks {
//		if err := state.Apply(text); errors.Is(err, structured.ErrRejected) {
//			rejected.Inc() // only the error of the stream changed; continue
//		}
//	}
//	for stream := range state.Streams() {
//		page = stream.AppendShown(page) // what a reader sees
//	}
//
// # Compatibility
//
// The value of a stream is what the original clients show: testdata holds the recorded results of their code, and the tests compare this package
// with them. A segment of digits addresses an array, any other segment an object. A place that was never written is not null: null is a value and cannot
// be extended. The labels are those of the last chunk. A chunk that cannot be applied changes nothing and does not block later chunks. This package
// additionally rejects what harms the original: __proto__ and constructor in a path, indexes far beyond the end or with leading zeros, chunks that violate the
// schema.
//
// # Failed streams
//
// After a rejected chunk the stream continues, as in the original, but its value may not be what the producer meant. LastError reports this until a final
// chunk replaces the value. Other streams are not affected.
//
// # Cost
//
// The cost of applying a chunk depends on the length of the chunk, not on the size of the value. The value is a tree of nodes; following a path takes one
// step per segment. Strings and arrays grow by a part of their length when they are full, so a text of a million bytes that arrives ten bytes at a time is
// copied a few times in all. A set drops the tree at its place and counts what it drops, which costs no more than building it did. Numbers keep their
// text, strings are WTF-8 (see package chunk), names keep their order.
//
// MaxText and the other limits bound the State for any input.
package structured
