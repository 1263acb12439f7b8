// Package chunk is the vocabulary of Tailrace: what an agent says, where it
// stands in its session, and the errors that every floor must recognise.
//
// A Chunk is one typed thing an agent said or did: a piece of text, a thought,
// a tool call, the start of a sub-agent. A Record is a chunk at its place in
// the log. The package knows JSON and nothing of NATS, HTTP or storage.
//
//	c, err := chunk.Decode(line)
//	switch b := c.Body.(type) {
//	case chunk.TextDelta:
//		fmt.Print(b.Delta)
//	case chunk.ToolStart:
//		fmt.Println("calls", b.ToolName)
//	default: // a type this build does not know: keep its place, show nothing
//	}
//
// Reading and writing JSON is exact: Decode and AppendJSON give back the same
// JSON value, with integers of any size and lone surrogate escapes. Strings
// are WTF-8: UTF-8 in which a lone surrogate escape (a JavaScript producer that
// cut an emoji in two) is held as its three-byte form, so that nothing is lost.
// Concat joins two such strings; the halves of a pair become one character.
package chunk
