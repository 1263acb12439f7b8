// Package structured puts together the values that Kortyx agents send in
// pieces. No clock, no I/O.
//
// A structured-data chunk names a stream and does one of four things to the
// stream's value: it sets a place, appends items to an array, appends text to a
// string, or replaces the whole for good.
//
//	{"type":"structured-data","streamId":"s","dataType":"report","kind":"text-delta","path":"sections.0.title","delta":"Sum"}
//
// A State holds the streams of one session:
//
//	var state structured.State
//	for text := range chunks {
//		if err := state.Apply(text); errors.Is(err, structured.ErrRefused) {
//			refused.Inc() // nothing changed but the stream's mark; go on
//		}
//	}
//	for stream := range state.Streams() {
//		page = stream.AppendView(page) // what a reader sees
//	}
//
// # The same answers as the original
//
// The value of a stream is what Kortyx's own clients would show: testdata holds
// what their code answered, and the tests hold this package to it. A segment of
// digits asks for an array, every other one for an object. What was never
// written is not null: null is a value, and nothing grows on it. The labels are
// those of the last chunk. A chunk that cannot be applied changes nothing and
// does not poison the stream. Only where the original comes to harm do we
// refuse: names of JavaScript's object prototype, indexes far beyond the end or
// with leading zeros, chunks that break the dialect's schema.
//
// # Failed streams
//
// After a refusal the stream goes on, as in the original, but its value may not
// be what the producer meant. It says so (Failed) until a final chunk replaces
// the value. Other streams are not affected.
//
// # What it costs
//
// Applying a chunk costs its own length, not that of what is there already.
// The value is a tree of nodes; a path is followed by one step per segment. A
// string is a byte slice that grows by a part of its own length when it is full,
// so a text of a million bytes that arrives ten bytes at a time is copied a few
// times in all; an array likewise. A set drops the tree that was there and
// counts what it leaves behind, which costs no more than it did to put it there.
// Numbers are kept as the text they came in, strings as WTF-8 (see package
// chunk), names in the order they came.
//
// Limits (MaxText and its neighbours) bound the State whatever is applied.
package structured
