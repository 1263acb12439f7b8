package jsingest

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// translate returns the chunks of a line in a dialect. A blank line has none.
//
// Servers of all dialects but AG-UI send [DONE] after their last event. It has a meaning in that of OpenAI only: some servers name no reason for the end, and without
// [DONE] their responses would be taken for ones that broke off. In the other dialects a chunk before it has the outcome.
func translate(t codec.Translator, name string, line []byte) ([]chunk.Chunk, error) {
	if isBlank(line) || isDone(line) && name != dialect.OpenAI {
		return nil, nil
	}
	return t.Translate(line)
}

func isBlank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

func isDone(line []byte) bool { return string(bytes.TrimSpace(line)) == "[DONE]" }
