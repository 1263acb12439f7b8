package dialect

import "github.com/tailrace/tailrace/chunk"

// CheckValue checks that one JSON value fits into a chunk, and returns it on one line.
func CheckValue(raw []byte) (chunk.Value, error) {
	// As data, not as text between others, so that its members cannot be taken for members of the surrounding chunk.
	line, err := chunk.Chunk{AgentID: "-", Body: chunk.Custom{Data: raw}}.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	c, err := chunk.Decode(line)
	if err != nil {
		return nil, err
	}
	b, _ := chunk.As[chunk.Custom](c)
	return b.Data, nil
}
