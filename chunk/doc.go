// Package chunk defines the data model of Tailrace: the chunks that agents emit, their position in the log of a session, and the errors that all layers
// share.
//
// A Chunk is one typed output or action of an agent: a piece of text, reasoning, a tool call, the start of a sub-agent. A Record is a chunk at its
// position in the log. The package reads and writes JSON; it does not depend on NATS, HTTP or storage.
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
// Reading and writing JSON is exact: AppendJSON writes the JSON value that Decode read, with integers of any size and lone surrogate escapes. Strings are
// WTF-8: UTF-8 in which a lone surrogate escape (a JavaScript producer cut an emoji in two) has its three-byte form, so no information is lost. Concat
// joins two such strings; the halves of a pair become one character. Members that the chunk schema does not have are kept in Extra, values of type "any"
// as their text on one line.
//
// Decode returns a *FieldError that names the member for a member of the wrong type, a missing member, a duplicate name, and a text over the limits
// (MaxDepth, MaxValues, MaxName). AppendJSON rejects what Decode would reject.
//
// Readers of the log return an iter.Seq2[Record, error]: records with nil errors, then at most one error, last.
package chunk
