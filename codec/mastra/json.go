package mastra

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// maxLevels limits the nesting of a text that may fit into a chunk after it was redacted.
const maxLevels = 10_000

// open parses one JSON value. A chunk that exceeds the limits may fit without the history that it repeats: a long run ends with such a chunk.
func open(raw []byte) (chunk.Value, error) {
	v, err := dialect.CheckValue(raw)
	if err == nil {
		return v, nil
	}
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: maxLevels}); !ok {
		return nil, err
	}
	return dialect.CheckValue(redact(chunk.Value(rawjson.TrimSpace(raw)), chunk.MaxDepth))
}
