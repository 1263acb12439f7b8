package turn

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The names of tools that writers know.
const (
	FinishTool   = "__finish__" // an agent calls it with its structured output; it is not shown
	SubAgentTool = "subagent__" // prefix of the tools that are sub-agents
)

// EndsText reports whether a record that is hidden, or of which nothing is written, ends the open text of its agent: a text before the record and one after it are
// two parts of the snapshot. kind and piece are those that DeltaReader returned, m has the members of a record that it did not read. Which outcomes of calls end a
// text depends on the calls, see HiddenCalls.
func EndsText(rec *chunk.Record, m *chunk.Members, kind BlockKind, piece []byte) bool {
	if kind != NoBlock {
		return len(piece) > 0
	}
	const empty = len(`""`)
	switch rec.Type {
	case chunk.TypeTextDelta:
		return len(m.Get("delta")) > empty
	case chunk.TypeThinking:
		return len(m.Get("content")) > empty
	case chunk.TypeToolArgStreamStart, chunk.TypeToolStart, chunk.TypeToolApprovalRequest, chunk.TypeToolInputError:
		return m.Text("toolName") != FinishTool
	case chunk.TypeFile, chunk.TypeSourceURL, chunk.TypeSourceDocument, chunk.TypeSubagentStart, chunk.TypeError,
		chunk.TypeStepStart, chunk.TypeStepEnd, chunk.TypeRunPaused, chunk.TypeStreamResync, chunk.TypeExecutorSuperseded:
		return true
	}
	return false
}

// Rest returns the text of whole after written, or all of it if it does not start with written. Both are contents of JSON strings.
func Rest(written, whole []byte) []byte {
	a, b := rawjson.Unescaped(written), rawjson.Unescaped(whole)
	if !bytes.HasPrefix(b, a) {
		return whole
	}
	return rawjson.AppendEscaped(nil, b[len(a):])
}
