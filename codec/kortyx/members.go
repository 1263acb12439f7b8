package kortyx

import (
	"strings"

	"github.com/tailrace/tailrace/internal/dialect"
)

// members are those of chunks that are left out, see docs/reference/dialects.md, and those that the Translator reads. The others are kept.
var members = dialect.LeaveOut(map[string]string{
	"": "node opId segmentId", "session": "sessionId", "trace": "runId", "done": "data", "interrupt": "resumeToken",
	"text-start text-delta text-end message": "id",
}).Reads(map[string]string{
	"text-delta":       "delta",
	"message":          "content",
	"tool-call-start":  "tool toolCallId input.*",
	"tool-call-result": "tool toolCallId content.* structuredContent.*",
	twice:              "tool toolCallId",
	both:               "tool toolCallId structuredContent.*",
	"tool-call-error":  "tool toolCallId message",
	"checkpoint":       "id",
	"interrupt":        "requestId meta.tool meta.toolCallId meta.input.* input.meta.tool input.meta.toolCallId input.meta.input.*",
	"error":            "message",
})

// The rows of chunks of which something was not used.
const (
	unwritten = "message,unwritten" // the text of the run differs from it
	twice     = "tool-call-start,twice"
	both      = "tool-call-result,both" // two contents that differ
)

// row returns the row of members for a chunk that was translated, "" for one that was kept whole.
func (t *translator) row(kind string, m *dialect.Object) string {
	content, _ := m.Text("content")
	switch {
	case kind == structuredData, kind == "interrupt" && t.waitFor == "interrupt":
		return ""
	case kind == "message" && !strings.Contains(t.text.all.String(), content):
		return unwritten
	case kind == "tool-call-start" && len(t.b.Out) == 0:
		return twice
	case kind == "tool-call-result" && !m.Flag("isError") && !m.Peek("structuredContent").IsNull() && content != string(m.Peek("structuredContent")):
		return both
	}
	return kind
}
