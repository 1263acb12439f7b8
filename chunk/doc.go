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
// Members that the catalogue does not know are kept in Extra, values of type
// "any" as the text they came in, on one line.
//
// What Decode refuses, a *FieldError names: a member of the wrong type, a
// missing one, a name that comes twice, a text over the limits (MaxDepth and its
// neighbours). AppendJSON refuses to write what Decode would not read.
//
// Readers of the log give an iter.Seq2[Record, error]. FilterType, FilterAgent,
// Take, Combine and their neighbours work on those:
//
//	answer := chunk.FilterAgent(reader.Tree(ctx, root, 0), root.ID)
//	text, err := chunk.CollectText(answer)
package chunk
