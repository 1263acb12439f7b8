//go:build e2e

package mastra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/mastra"
)

// TestClientTool lets the client run a tool: the response ends with the reason tool-calls, the client runs its tool once, posts the result, and reads the rest of
// the turn from the next response. Its tools still work in that one.
func TestClientTool(t *testing.T) {
	l := newLog(t)
	pause := func(id string) {
		l.emit(root.ID, chunk.StepStart{}, chunk.ToolStart{ToolCallID: id, ToolName: "page_where", Arguments: chunk.Value(`{"n":"` + id + `"}`)},
			chunk.StepEnd{FinishReason: new("tool-calls")}, chunk.StreamPaused{})
	}
	answered := func(run, id string) {
		l.emit(root.ID, chunk.RunStarted{RunID: run, Epoch: int64(l.epoch) + 1, Mode: "with_message"},
			chunk.ToolEnd{ToolCallID: id, ToolName: "page_where", Result: chunk.Value(`"here"`), ProviderExecuted: new(false)})
	}
	l.emit(root.ID, chunk.RunStarted{RunID: "r0", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Hi"}}}, chunk.TextDelta{Delta: "Let me look."})
	pause("c1")
	answered("r1", "c1")
	pause("c2")
	answered("r2", "c2")
	l.emit(root.ID, chunk.StepStart{}, chunk.TextDelta{Delta: "You are here."}, chunk.StepEnd{FinishReason: new("stop")}, chunk.StreamEnd{StreamID: root.ID})

	a := read(l.records, 0)
	v := ask(t, "stream", map[string]any{"bodies": bytesOf(a), "tools": []string{"page_where"}})
	if len(a.bodies) != 3 || len(v.Requests) != 3 || len(v.Logged) > 0 {
		t.Fatalf("%d responses, requests %v, logged %q", len(a.bodies), v.Requests, v.Logged)
	}
	var ran []any
	for _, e := range v.Executed {
		ran = append(ran, e.Input["n"])
	}
	if !slices.Equal(ran, []any{"c1", "c2"}) {
		t.Errorf("the client ran %v, want c1 and c2 once each", ran)
	}
	if text := asJSON(v.Requests[2].Body); !strings.Contains(text, `"toolCallId":"c2"`) || !strings.Contains(text, `"result":"here"`) {
		t.Errorf("the last request has no result of c2: %s", text)
	}
	last := v.Chunks[len(v.Chunks)-1]
	if !strings.Contains(string(last), `"type":"finish"`) {
		t.Errorf("the last chunk is %s", last)
	}
}

func bytesOf(a answer) (bodies [][]byte) {
	for _, body := range a.bodies {
		bodies = append(bodies, []byte(body))
	}
	return bodies
}

// TestEventInText reads a text with an event of the application in it, cut at each record.
func TestEventInText(t *testing.T) {
	l := newLog(t)
	l.emit(root.ID, chunk.RunStarted{RunID: "r0", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Hi"}}}, chunk.StepStart{},
		chunk.TextDelta{Delta: "Before,"}, chunk.Custom{EventName: "progress", Data: chunk.Value(`{"n":1}`)}, chunk.TextDelta{Delta: " after."},
		chunk.StepEnd{FinishReason: new("stop")}, chunk.StreamEnd{StreamID: root.ID})
	for cut := range l.records {
		a := read(l.records, cut)
		checkUI(t, fmt.Sprintf("cut at %d", cut), l.records, a.joined())
		checkClient(t, fmt.Sprintf("cut at %d", cut), l.records, a)
	}
}

// TestApprovalID: the id of an approval that the AI SDK's page posts is that of the log.
func TestApprovalID(t *testing.T) {
	l := newLog(t)
	l.emit(root.ID, chunk.RunStarted{RunID: "r7", Epoch: 1, Mode: "takeover"}, chunk.StepStart{},
		chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "act", ApprovalID: "r0::c1", Input: chunk.Value(`{"q":1}`)}, chunk.StreamPaused{})
	v := ask(t, "ui", map[string]any{"responses": [][]json.RawMessage{chunksIn(t, read(l.records, 0).bodies[0])}})
	for _, p := range partsOf(v.Message) {
		if approval, _ := p["approval"].(map[string]any); approval["id"] == "r0::c1" {
			return
		}
	}
	t.Errorf("no approval r0::c1 in %s", asJSON(v.Message))
}

// separate appends the chunks of frames with U+001E after each, as the clients of workflows read them: without cursors and the end mark.
func separate(dst, frames []byte) []byte {
	for line := range bytes.Lines(frames) {
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok {
			dst = append(append(append(dst, '{'), bytes.TrimSuffix(data, []byte("\n"))...), '\x1e')
		}
	}
	return dst
}

// TestWorkflow reads the recorded workflows in the framing of workflows, and what the adapter shows of them.
func TestWorkflow(t *testing.T) {
	all := recordings(t)
	for name, status := range map[string]string{"workflow": "success", "workflow-fails": "failed", "workflow-suspends": "success"} {
		t.Run(name, func(t *testing.T) {
			records := all[name].records
			w := mastra.NewWriter("msg-1")
			var bodies [][]byte
			var body []byte
			for _, rec := range records {
				if body = separate(body, w.Append(nil, rec)); w.Done() && len(body) > 0 {
					bodies, body = append(bodies, body), nil
				}
			}
			if want := 1 + strings.Count(name, "suspends"); len(bodies) != want || len(body) > 0 {
				t.Fatalf("%d responses, want %d, and then %q", len(bodies), want, body)
			}
			for i, body := range bodies {
				v := ask(t, "workflow", map[string]any{"body": body})
				if len(v.Logged) > 0 || len(v.Chunks) != strings.Count(string(body), "\x1e") || !strings.Contains(string(v.Chunks[len(v.Chunks)-1]), `"type":"workflow-finish"`) {
					t.Errorf("the application gets %s, logged %q", v.Chunks, v.Logged)
				}
				ui := ask(t, "ui", map[string]any{"from": "workflow", "responses": [][]json.RawMessage{v.Chunks}})
				parts := partsOf(ui.Message)
				if len(ui.Errors) > 0 || len(parts) == 0 {
					t.Fatalf("parts %s, errors %q", asJSON(parts), ui.Errors)
				}
				at := slices.IndexFunc(parts, func(p part) bool { return p["type"] == "data-workflow" })
				if at < 0 {
					t.Fatalf("no workflow in %s", asJSON(parts))
				}
				data, _ := parts[at]["data"].(map[string]any)
				if last := i == len(bodies)-1; last && data["status"] != status || !last && data["status"] != "suspended" {
					t.Errorf("the workflow is %v, want %s", data["status"], status)
				}
			}
		})
	}
}

// timestamps are those of the conversion.
var timestamps = regexp.MustCompile(`"timestamp":"[^"]*"`)

// TestNetworkAndNestedWorkflow: the adapter shows the same of what a client gets from the log as of the original chunks.
func TestNetworkAndNestedWorkflow(t *testing.T) {
	for name, from := range map[string]string{"network.jsonl": "network", "nested-workflow.jsonl": "agent"} {
		t.Run(from, func(t *testing.T) {
			data, err := os.ReadFile("../../../codec/mastra/testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			var original []json.RawMessage
			for line := range bytes.Lines(data) {
				original = append(original, line)
			}
			l := translated(t, original)
			want := ask(t, "ui", map[string]any{"from": from, "responses": [][]json.RawMessage{original}})
			got := ask(t, "ui", map[string]any{"from": from, "responses": [][]json.RawMessage{chunksIn(t, read(l.records, 0).bodies[0])}})
			if a, b := asJSON(got.Message["parts"]), asJSON(want.Message["parts"]); timestamps.ReplaceAllString(a, "") != timestamps.ReplaceAllString(b, "") || len(b) < 500 {
				t.Errorf(" got %s\nwant %s", a, b)
			}
			checkStream(t, name, read(l.records, 0))
		})
	}
}

// TestEachChunkIsAccepted reads what a client may meet among the texts: chunks of Mastra that the log has as they were, hostile events, and records of each type.
func TestEachChunkIsAccepted(t *testing.T) {
	l := newLog(t)
	l.emit(root.ID, chunk.RunStarted{RunID: "r0", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "Hi"}}}, chunk.StepStart{}, chunk.TextDelta{Delta: "Hel"})
	for _, c := range []chunk.Custom{
		{EventName: "mastra.background-task-started", Data: chunk.Value(`{"type":"background-task-started","runId":"r0","from":"AGENT","payload":{"taskId":"t1","toolName":"x","toolCallId":"c"}}`)},
		{EventName: "mastra.goal", Data: chunk.Value(`{"type":"goal","runId":"r0","from":"AGENT","payload":{"objective":"o","iteration":1}}`)},
		{EventName: "mastra.acme", Data: chunk.Value(`{"type":"acme","payload":{"type":"error","error":"not one"}}`)},
		{EventName: "mastra.error", Data: chunk.Value(`{"type":"error","payload":null}`)},
		{EventName: "mastra.tool-result", Data: chunk.Value(`{"type":"tool-result","payload":{"toolCallId":"none","result":1}}`)},
		{EventName: "mastra.acme", Data: chunk.Value(`{"type":"acme","payload":null}`)},
		{EventName: "mastra.text-delta", Data: chunk.Value(`{"type":"text-delta","payload":{"id":"other","text":"x"}}`)},
		{EventName: "tool-output", Data: chunk.Value(`{"toolCallId":"c","toolName":"x","output":{"type":"data-x"}}`)},
		{EventName: "tool-output", Data: chunk.Value(`{"toolCallId":"c","toolName":"x","output":{"step":1}}`)},
		{EventName: "user message, data: x", Data: chunk.Value(`{"type":"finish"}`)},
	} {
		l.emit(root.ID, c)
	}
	l.emit(root.ID, chunk.TextDelta{Delta: "lo"}, chunk.StepEnd{FinishReason: new("stop")}, chunk.StreamEnd{StreamID: root.ID})
	a := read(l.records, 0)
	checkStream(t, "whole", a)
	checkUI(t, "whole", l.records, a)
	checkClient(t, "whole", l.records, a)
	if strings.Count(a.bodies[0], `"type":"background-task-started"`) != 1 || strings.Count(a.bodies[0], "data-mastra-chunk") != 5 {
		t.Errorf("chunks of Mastra in another form: %s", a.bodies[0])
	}
}
