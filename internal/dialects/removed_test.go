package dialects_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
)

// TestArgumentsAfterARemoval checks that a call has its arguments wherever a response has them, also after a truncated record removed its outcome.
func TestArgumentsAfterARemoval(t *testing.T) {
	yes := true
	run := chunk.RunStarted{RunID: "r", Mode: "execute", Input: []chunk.InputMessage{{Content: "Hi"}}}
	again := chunk.RunStarted{RunID: "r2", Mode: "continue"}
	start := chunk.ToolStart{ToolCallID: "c1", ToolName: "page", Arguments: chunk.Value(`{"q":1}`)}
	request := chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "page", ApprovalID: "r::c1", Input: chunk.Value(`{"q":1}`)}
	answer := chunk.ToolApprovalResponse{ToolCallID: "c1", ToolName: "page", ApprovalID: "r::c1", Approved: true}
	denial := chunk.ToolApprovalResponse{ToolCallID: "c1", ToolName: "page", ApprovalID: "r::c1"}
	ofClient := chunk.ToolEnd{ToolCallID: "c1", ToolName: "page", Result: chunk.Value(`1`)}
	outcome := chunk.ToolEnd{ToolCallID: "c1", ToolName: "page", Result: chunk.Value(`1`), ProviderExecuted: &yes}
	removal := func(ordinal int64) chunk.Truncated {
		return chunk.Truncated{Removed: []chunk.OrdinalRange{{First: ordinal, Last: ordinal}}}
	}
	end := chunk.StreamEnd{StreamID: turntest.Session.ID}
	for _, c := range []struct {
		name string
		log  []chunk.Body
	}{
		{"an approved call", []chunk.Body{run, request, chunk.StreamPaused{}, again, answer, outcome, removal(6), outcome, end}},
		{"a denied call that is asked about again", []chunk.Body{run, request, chunk.StreamPaused{}, again, denial, removal(5), request, chunk.StreamPaused{}}},
		{"a call that the client is asked to run again", []chunk.Body{run, start, chunk.StreamPaused{}, again, ofClient, removal(5), chunk.StreamPaused{}, again, ofClient, end}},
		{"a call of the client that the server runs", []chunk.Body{run, start, chunk.StreamPaused{}, again, outcome, removal(5), start, outcome, removal(8), outcome, end}},
		{"a call of the step before", []chunk.Body{
			run, chunk.StepStart{}, start, chunk.StreamPaused{}, again, ofClient, chunk.StepEnd{}, chunk.StepStart{}, removal(6), chunk.StreamPaused{}, again, outcome, end,
		}},
		{"a call of a run that was interrupted", []chunk.Body{
			run, start, chunk.RunInterrupted{RunID: "r"}, end, chunk.RunResumed{RunID: "r", Mode: "continue"}, outcome, removal(6), outcome, end,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{dialect.AISDK, dialect.Mastra, dialect.LangGraph} {
				w, found := dialects.NewWriter(name, dialects.Turn{Session: turntest.Session, MessageID: "msg-1"}), false
				for i, body := range c.log {
					c := chunk.Chunk{AgentID: turntest.Session.ID, AgentType: "planner", Body: body}
					data, err := c.AppendJSON(nil)
					if err != nil {
						t.Fatal(err)
					}
					frames := w.Append(nil, chunk.Record{Seq: chunk.Seq(i + 1), Session: turntest.Session, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data})
					for line := range strings.Lines(string(frames)) {
						data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
						if !ok || data == "[DONE]" {
							continue
						}
						var event any
						if err := json.Unmarshal([]byte(data), &event); err != nil {
							t.Fatalf("%s: %v in %q", name, err, data)
						}
						for _, arguments := range argumentsIn(event) {
							found = true
							if got, _ := json.Marshal(arguments); string(got) != `{"q":1}` {
								t.Errorf("%s writes the arguments %s in %s", name, got, data)
							}
						}
					}
				}
				if !found {
					t.Errorf("%s writes no arguments", name)
				}
			}
		})
	}
}

// argumentsIn returns the arguments of calls in an event.
func argumentsIn(event any) (all []any) {
	switch v := event.(type) {
	case []any:
		for _, element := range v {
			all = append(all, argumentsIn(element)...)
		}
	case map[string]any:
		for name, member := range v {
			if _, isObject := member.(map[string]any); isObject && (name == "args" || name == "input" || name == "arguments") {
				all = append(all, member)
			} else {
				all = append(all, argumentsIn(member)...)
			}
		}
	}
	return all
}
