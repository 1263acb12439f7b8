package httpagent

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// The routes of a Mastra server that continue a run. The server keeps a run that waits for an answer.
const (
	mastraApprove = "approve-tool-call"
	mastraDecline = "decline-tool-call"
	mastraResume  = "resume-stream"
)

// mastraSuspended is the custom event of a call whose tool waits for an answer of its own form.
const mastraSuspended = dialect.Mastra + ".tool-call-suspended"

// mastraBody returns what the stream routes of a Mastra server take. Their agents accept messages of the AI SDK.
func mastraBody(t *workers.Turn) any {
	if _, body := mastraAnswer(t); body != nil {
		return body
	}
	return struct {
		Messages []aisdk.UIMessage `json:"messages"`
		RunID    string            `json:"runId"`
	}{aisdk.RequestMessages(t.Messages()), t.RunID()}
}

// mastraURL returns the URL of the route for a turn: it differs from that of stream in the last element of its path.
func mastraURL(configured string, t *workers.Turn) string {
	route, body := mastraAnswer(t)
	if body == nil {
		return configured
	}
	u, err := url.Parse(configured)
	if err != nil {
		return configured // New has parsed it
	}
	return u.JoinPath("..", route).String()
}

// mastraAnswered is the body of the routes that continue a run.
type mastraAnswered struct {
	RunID      string          `json:"runId"`
	ToolCallID string          `json:"toolCallId"`
	Reason     string          `json:"reason,omitempty"`
	ResumeData json.RawMessage `json:"resumeData,omitempty"`
}

// mastraAnswer returns the route and the body for the answer to a call of the last step, nil if there is none. A run of Mastra waits for one call at a time: it asks
// for the next one when it continues.
func mastraAnswer(t *workers.Turn) (route string, body *mastraAnswered) {
	list := t.Messages()
	if len(list) == 0 {
		return "", nil
	}
	last := list[len(list)-1]
	for _, p := range last.Parts {
		if p.Data == nil {
			continue
		}
		var asked mastraAnswered
		switch p.Data.Name {
		case dialect.Mastra + approvalEvent:
			asked.RunID, asked.ToolCallID, _ = strings.Cut(dialect.TextAt(p.Data.Value, "interruptId"), "::")
		case mastraSuspended:
			asked.RunID, asked.ToolCallID = dialect.TextAt(p.Data.Value, "runId"), dialect.TextAt(p.Data.Value, "payload", "toolCallId")
		default:
			continue
		}
		calls := last.Calls()
		i := slices.IndexFunc(calls, func(c fold.ToolCall) bool { return c.ID == asked.ToolCallID })
		if i < 0 {
			continue
		}
		switch c := calls[i]; {
		case c.State == fold.CallApproved:
			return mastraApprove, &asked
		case c.State == fold.CallDenied:
			if c.Approval != nil && c.Approval.Reason != nil {
				asked.Reason = *c.Approval.Reason
			}
			return mastraDecline, &asked
		case c.State == fold.CallDone && p.Data.Name == mastraSuspended:
			asked.ResumeData = json.RawMessage(c.Output)
			return mastraResume, &asked
		}
	}
	return "", nil
}
