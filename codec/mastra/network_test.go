package mastra

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// example reads an example of testdata.
func example(tb fataler, name string) recording {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	var r recording
	for line := range bytes.Lines(data) {
		r.Chunks = append(r.Chunks, line)
	}
	return r
}

func outline(tb fataler, r recording) []string {
	tb.Helper()
	var out []string
	for _, s := range translate(tb, r) {
		for _, c := range s.chunks {
			if !strings.HasPrefix(describe(c), "custom:mastra.") {
				out = append(out, describe(c))
			}
		}
	}
	return out
}

// TestNetwork translates a run of a network: its agent and workflow are sub-agents, its tool is a call, its routing is in steps.
func TestNetwork(t *testing.T) {
	r := example(t, "network.jsonl")
	want := []string{
		"step_start", "step_end", "subagent_start", "step-2/step_start", "step-2/text_delta", "step-2/text_delta", "custom:note", "step-2/step_end", "step-2/stream_end", "subagent_end",
		"step_start", "step_end", "subagent_start", "step-4/custom:mastra.workflow-start", "step-4/step_start", "step-4/custom:mastra.workflow-step-start",
		"step-4/custom:mastra.workflow-step-result", "step-4/step_end", "step-4/output", "step-4/stream_end", "subagent_end",
		"step_start", "step_end", "tool_start", "tool_end", "text_delta", "text_delta", "stream_end",
	}
	if got := outline(t, r); !slices.Equal(got, want) {
		t.Errorf(" got %q\nwant %q", got, want)
	}
	sameChunks(t, r)
}

// TestNestedWorkflow translates a workflow that an agent called: it is a sub-agent.
func TestNestedWorkflow(t *testing.T) {
	r := example(t, "nested-workflow.jsonl")
	want := []string{
		"step_start", "tool_start", "subagent_start", "flow-1/custom:mastra.workflow-start", "flow-1/step_start", "flow-1/custom:mastra.workflow-step-start",
		"flow-1/custom:mastra.workflow-step-output", "flow-1/custom:mastra.workflow-step-result", "flow-1/step_end", "flow-1/output", "flow-1/stream_end", "subagent_end",
		"tool_end", "step_end", "stream_end",
	}
	if got := outline(t, r); !slices.Equal(got, want) {
		t.Errorf(" got %q\nwant %q", got, want)
	}
	sameChunks(t, r)
}

// sameChunks writes the log of a run and fails the test if a client gets chunks of other types than those that were translated, or other chunks in place of those
// that the log has as they were.
func sameChunks(t *testing.T, r recording) {
	t.Helper()
	e := write("msg-1", tree(log(t, translate(t, r))))
	got := e.recording(t).Chunks
	got = got[:len(got)-1]                    // the end of the response
	apart := func(raw json.RawMessage) bool { // an event of a sub-agent is one of the session, and does not end the text of the sub-agent
		kind := label(raw)
		return strings.Contains(kind, "data-note") || strings.HasSuffix(kind, "text-end")
	}
	got, want := slices.DeleteFunc(got, apart), slices.DeleteFunc(slices.Clone(r.Chunks), apart)
	for i, raw := range want {
		if i >= len(got) {
			t.Fatalf("%d chunks, want %d", len(got), len(want))
		}
		if label(got[i]) != label(raw) {
			t.Fatalf("chunk %d\n got %s\nwant %s", i, got[i], raw)
		}
		kind, _ := dialect.Read(chunk.Value(raw)).Text("type")
		if isOfNetwork(kind) && !strings.Contains(kind, "-event-") && !strings.Contains(kind, "text") && asJSON(got[i]) != asJSON(raw) {
			t.Errorf("chunk %d\n got %s\nwant %s", i, got[i], raw)
		}
	}
	if len(got) > len(want) {
		t.Errorf("%d chunks, want %d: %s", len(got), len(want), got[len(want)])
	}
}

// A network that waits asks the user, or says for what it waits. It continues in another response.
func TestNetworkWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"for an approval of a tool", []string{
			`{"type":"tool-execution-start","runId":"n","from":"NETWORK","payload":{"args":{"args":{"q":1},"toolName":"search","toolCallId":"c1"},"runId":"n"}}`,
			`{"type":"tool-execution-approval","payload":{"toolName":"search","toolCallId":"c1","args":{"q":1},"runId":"n"}}`,
		}, []string{"tool_start", "tool_approval_request", "stream_paused"}},
		{"for an approval of its agent", []string{
			`{"type":"agent-execution-start","runId":"n","from":"NETWORK","payload":{"agentId":"w","runId":"s1-2"}}`,
			`{"type":"agent-execution-event-tool-call-approval","runId":"n","from":"NETWORK","payload":{"type":"tool-call-approval","runId":"s1-2","from":"AGENT","payload":{"toolCallId":"c1","toolName":"x","args":{}}}}`,
			`{"type":"agent-execution-approval","runId":"n","from":"NETWORK","payload":{"toolCallId":"w","toolName":"w","args":{"prompt":"p"},"runId":"s1-2"}}`,
		}, []string{"subagent_start", "s1-2/tool_approval_request", "s1-2/stream_paused", "stream_paused"}},
		{"for an approval of an agent without events", []string{
			`{"type":"agent-execution-approval","runId":"n","from":"NETWORK","payload":{"toolCallId":"w","toolName":"w","args":{"prompt":"p"},"runId":"s1-2"}}`,
		}, []string{"tool_approval_request", "stream_paused"}},
		{"for data", []string{
			`{"type":"tool-execution-suspended","runId":"n","from":"NETWORK","payload":{"toolCallId":"c1","toolName":"x","suspendPayload":{"ask":1}}}`,
		}, []string{"run_paused", "stream_paused"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r recording
			for _, line := range c.lines {
				r.Chunks = append(r.Chunks, json.RawMessage(line))
			}
			if got := outline(t, r); !slices.Equal(got, c.want) {
				t.Errorf(" got %q\nwant %q", got, c.want)
			}
		})
	}
}

// Both spellings of what a suspended background task waits for are written as the product's clients read them.
func TestBackgroundTaskSuspended(t *testing.T) {
	for _, name := range []string{"suspendData", "suspendPayload"} {
		r := recording{Chunks: []json.RawMessage{json.RawMessage(
			`{"type":"background-task-suspended","runId":"r","from":"AGENT","payload":{"taskId":"t1","toolName":"x","toolCallId":"c1","` + name + `":{"ask":1}}}`)}}
		e := write("", tree(log(t, translate(t, r))))
		if body := string(e.body()); !strings.Contains(body, `"suspendPayload":{"ask":1}`) {
			t.Errorf("%s: %s", name, body)
		}
	}
}
