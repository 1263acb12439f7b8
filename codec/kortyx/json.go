package kortyx

import (
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The events with chunks of Kortyx that have no counterpart are named after their types, those of structured data without the prefix: readers of all dialects
// assemble them, see projector/fold.
const (
	prefix         = "kortyx."
	structuredData = "structured-data"
	invalidated    = "structured-data-invalidated"
	approvalPrefix = "tool:" // of the id of an interrupt that asks for the approval of a call
)

// maxLevels limits the nesting of a done, whose data is not read.
const maxLevels = 10_000

// open parses one JSON object that fits into a chunk. A done may be larger: its data is the state of the whole workflow, and is not kept.
func open(raw []byte) (chunk.Value, error) {
	v, err := dialect.CheckValue(raw)
	if err == nil {
		return v, nil
	}
	if _, ok := rawjson.Scan(raw, rawjson.Limits{Levels: maxLevels}); !ok || !isDone(raw) {
		return nil, err
	}
	return chunk.Value(`{"type":"done"}`), nil
}

// isDone reports whether an object has one member type, which is done.
func isDone(raw []byte) bool {
	types, done := 0, false
	for name, value := range rawjson.Members(raw) {
		if name.Is("type") {
			types, done = types+1, rawjson.Text(value).Is("done")
		}
	}
	return types == 1 && done
}

// contentText returns the content of a tool's result as text: a string, the texts of content blocks, otherwise its JSON.
func contentText(v chunk.Value) string {
	if s, ok := dialect.Text(v); ok {
		return s
	}
	var texts []string
	for block := range rawjson.Elements(v) {
		if s, ok := dialect.Read(block).Text("text"); ok {
			texts = append(texts, s)
		}
	}
	if len(texts) > 0 {
		return strings.Join(texts, "\n")
	}
	return string(v)
}

// withoutToken returns v without the members resumeToken, at any depth: the token answers a question in the user's name.
func withoutToken(v chunk.Value) chunk.Value {
	return dialect.Without(v, chunk.MaxDepth, "resumeToken")
}
