package kortyx

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/structured"
)

// lines returns the data frames of records, without the session chunk of the first one.
func lines(tb testing.TB, log []chunk.Record) []string {
	tb.Helper()
	var c client
	var out []string
	body := ""
	for _, frames := range write(log) {
		checkFrames(tb, frames)
		body += frames
		for frame := range strings.SplitSeq(frames, "\n\n") {
			if data, ok := strings.CutPrefix(frame, "data: "); ok {
				out = append(out, data)
			}
		}
		if strings.Contains(frames, "[DONE]") {
			c.follow(tb, body)
			body = ""
		}
	}
	c.follow(tb, body)
	if len(out) == 0 || out[0] != `{"type":"session","sessionId":"s1"}` {
		tb.Fatalf("the response begins with %q", out)
	}
	return out[1:]
}

const end = "[DONE]"

// Each chunk has its counterpart, or is dropped.
func TestWriter(t *testing.T) {
	yes, title, reason := true, "T", "too risky"
	v := func(s string) chunk.Value { return chunk.Value(s) }
	custom := func(name, data string) chunk.Custom { return chunk.Custom{EventName: name, Data: v(data)} }
	kx := func(data string) chunk.Custom {
		return custom("structured-data", `{"type":"structured-data",`+data+`}`)
	}
	start := chunk.ToolStart{ToolCallID: "c", ToolName: "f", Arguments: v(`{"q":1}`)}
	request := chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "f", ApprovalID: "a", Input: v(`{"q":1}`)}
	for _, tt := range []struct {
		name   string
		bodies []chunk.Body
		want   []string
	}{
		{"text", []chunk.Body{chunk.TextDelta{}, chunk.TextDelta{Delta: "a"}, chunk.TextDelta{Delta: "\n\xed\xa0\xbd"}, chunk.StreamEnd{StreamID: "s1"}}, []string{
			`{"type":"text-start","node":"planner","opId":"r1","segmentId":"block-12"}`, `{"type":"text-delta","node":"planner","opId":"r1","segmentId":"block-12","delta":"a"}`,
			`{"type":"text-delta","node":"planner","opId":"r1","segmentId":"block-12","delta":"\n\ud83d"}`, `{"type":"text-end","node":"planner","opId":"r1","segmentId":"block-12"}`, `{"type":"done"}`, end,
		}},
		{"reasoning is left out, and ends a text", []chunk.Body{chunk.TextDelta{Delta: "a"}, chunk.Thinking{Content: "hm"}, chunk.Thinking{IsComplete: true}}, []string{
			`{"type":"text-start","node":"planner","opId":"r1","segmentId":"block-11"}`, `{"type":"text-delta","node":"planner","opId":"r1","segmentId":"block-11","delta":"a"}`, `{"type":"text-end","node":"planner","opId":"r1","segmentId":"block-11"}`,
		}},
		{"calls", []chunk.Body{
			chunk.ToolArgStreamStart{ToolCallID: "c", ToolName: "f"}, start, chunk.ToolEnd{ToolCallID: "c", ToolName: "f", Result: v(`{"a":[1]}`), ProviderExecuted: &yes},
			chunk.ToolEnd{ToolCallID: "d", ToolName: "f", Result: v(`"t"`)}, chunk.ToolEnd{ToolCallID: "e", ToolName: "f", Result: v(`5`)}, chunk.ToolEnd{ToolCallID: "g", ToolName: "f", Error: &reason},
			chunk.ToolOutputError{ToolCallID: "h", ToolName: "f", Error: "x"}, chunk.ToolInputError{ToolCallID: "i", ToolName: "f", Error: "y"}, chunk.ToolStart{ToolCallID: "k", ToolName: "__finish__", Arguments: v(`{}`)},
		}, []string{
			`{"type":"tool-call-start","tool":"f","toolCallId":"c","node":"planner","opId":"r1","input":{"q":1}}`,
			`{"type":"tool-call-result","tool":"f","toolCallId":"c","node":"planner","opId":"r1","content":"{\"a\":[1]}","structuredContent":{"a":[1]}}`,
			`{"type":"tool-call-result","tool":"f","toolCallId":"d","node":"planner","opId":"r1","content":"t"}`, `{"type":"tool-call-result","tool":"f","toolCallId":"e","node":"planner","opId":"r1","content":"5"}`,
			`{"type":"tool-call-error","tool":"f","toolCallId":"g","node":"planner","opId":"r1","message":"too risky"}`, `{"type":"tool-call-error","tool":"f","toolCallId":"h","node":"planner","opId":"r1","message":"x"}`,
			`{"type":"tool-call-error","tool":"f","toolCallId":"i","node":"planner","opId":"r1","message":"y"}`,
		}},
		{"an approval", []chunk.Body{
			chunk.CheckpointCreated{RunID: "r1", CheckpointID: "cp1"}, chunk.CheckpointCreated{RunID: "r1", CheckpointID: "cp2"}, request, chunk.StreamPaused{},
			chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "with_confirmation"}, chunk.ToolApprovalResponse{ToolCallID: "c", ToolName: "f", ApprovalID: "a", Approved: true}, chunk.ToolEnd{ToolCallID: "c", ToolName: "f", Result: v(`"t"`)}, chunk.StreamEnd{StreamID: "s1"},
		}, []string{
			`{"type":"interrupt","requestId":"a","resumeToken":"","node":"planner","opId":"r1","id":"tool:c","input":{"kind":"choice","multiple":false,"question":"Approve f?","id":"tool:c","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}],"meta":{"tool":"f","toolCallId":"c","input":{"q":1}}}}`,
			`{"type":"checkpoint","id":"cp2","sessionId":"s1","turnIndex":1}`, `{"type":"done"}`, end, `{"type":"session","sessionId":"s1"}`,
			`{"type":"structured-data","streamId":"native:16","dataType":"native.chunk","kind":"final","node":"planner","data":{"chunk":{"type":"tool_approval_response","agentId":"s1","agentType":"planner","timestamp":1,"step":1,"toolCallId":"c","toolName":"f","approvalId":"a","approved":true},"sequence":16}}`,
			`{"type":"tool-call-result","tool":"f","toolCallId":"c","node":"planner","opId":"r2","content":"t"}`, `{"type":"done"}`, end,
		}},
		{"a denial", []chunk.Body{
			start, request, chunk.StreamPaused{}, chunk.StreamActive{}, chunk.ToolApprovalResponse{ToolCallID: "c", ToolName: "f", ApprovalID: "a", Reason: &reason}, chunk.ToolEnd{ToolCallID: "c", ToolName: "f", Error: &reason},
		}, []string{
			`{"type":"tool-call-start","tool":"f","toolCallId":"c","node":"planner","opId":"r1","input":{"q":1}}`,
			`{"type":"interrupt","requestId":"a","resumeToken":"","node":"planner","opId":"r1","id":"tool:c","input":{"kind":"choice","multiple":false,"question":"Approve f?","id":"tool:c","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}],"meta":{"tool":"f","toolCallId":"c","input":{"q":1}}}}`,
			`{"type":"done"}`, end, `{"type":"session","sessionId":"s1"}`,
			`{"type":"structured-data","streamId":"native:15","dataType":"native.chunk","kind":"final","node":"planner","data":{"chunk":{"type":"tool_approval_response","agentId":"s1","agentType":"planner","timestamp":1,"step":1,"toolCallId":"c","toolName":"f","approvalId":"a","approved":false,"reason":"too risky"},"sequence":15}}`,
			`{"type":"tool-call-result","tool":"f","toolCallId":"c","node":"planner","opId":"r1","content":"too risky","isError":true}`,
		}},
		{"a rule decides", []chunk.Body{chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "f", ApprovalID: "a", Input: v(`{}`), IsAutomatic: &yes}}, nil},
		{"data", []chunk.Body{
			custom("progress", `{"__proto__":1}`), chunk.Output{Output: v(`[1]`)}, chunk.Output{Output: v(`2`)}, chunk.SourceURL{SourceID: "1", URL: "https://u", Title: &title},
			chunk.SourceDocument{SourceID: "2", MediaType: "a/b", Title: "D"}, chunk.File{URL: "https://f", MediaType: "a/b"},
		}, []string{
			`{"type":"structured-data","streamId":"custom:11","dataType":"progress","kind":"final","node":"planner","data":{"__proto__":1}}`, `{"type":"structured-data","streamId":"output:r1","dataType":"output","kind":"final","node":"planner","data":[1]}`,
			`{"type":"structured-data","streamId":"output:13","dataType":"output","kind":"final","node":"planner","data":2}`,
			`{"type":"structured-data","streamId":"source:14","dataType":"source","kind":"final","node":"planner","data":{"sourceId":"1","url":"https://u","title":"T"}}`,
			`{"type":"structured-data","streamId":"source:15","dataType":"source","kind":"final","node":"planner","data":{"sourceId":"2","mediaType":"a/b","title":"D"}}`,
			`{"type":"structured-data","streamId":"file:16","dataType":"file","kind":"final","node":"planner","data":{"url":"https://f","mediaType":"a/b"}}`,
		}},
		{"chunks of Kortyx agents", []chunk.Body{
			kx(`"streamId":"s","dataType":"t","kind":"set","path":"prototype.a","value":1,"x":1`), kx(`"streamId":"s","dataType":"t","kind":"set","path":"constructor.a","value":1`),
			kx(`"streamId":"constructor","dataType":"t","kind":"final","data":1`), kx(`"streamId":"s","dataType":"t","kind":"final","data":null`), kx(`"streamId":"s","dataType":"t","kind":"final","data":null`),
			custom("structured-data-invalidated", `{"streamId":"s","checkpointId":"c"}`), kx(`"streamId":"s","dataType":"t","kind":"append","path":"l","items":[1]`),
			custom("kortyx.status", `{"type":"status","message":"m","node":5}`), custom("kortyx.transition", `{"transitionTo":"w","payload":{"a":1}}`), custom("kortyx.tool-result", `{"content":[1],"tool":"f"}`),
			custom("kortyx.new", `{"type":"new","a":1}`), custom("kortyx.status", `{"message":5}`), custom("kortyx.status", `5`),
		}, []string{
			`{"type":"structured-data","streamId":"s","dataType":"t","kind":"set","path":"prototype.a","value":1,"x":1}`, `{"type":"structured-data","streamId":"s","dataType":"t","kind":"final","data":null}`,
			`{"type":"structured-data-invalidated","streamId":"s","checkpointId":"c"}`, `{"type":"structured-data","streamId":"s@16","dataType":"t","kind":"append","path":"l","items":[1]}`,
			`{"type":"status","message":"m"}`, `{"type":"transition","transitionTo":"w","payload":{"a":1}}`, `{"type":"tool-result","tool":"f","content":[1]}`,
			`{"type":"structured-data","streamId":"custom:21","dataType":"kortyx.new","kind":"final","node":"planner","data":{"type":"new","a":1}}`,
			`{"type":"structured-data","streamId":"custom:22","dataType":"kortyx.status","kind":"final","node":"planner","data":{"message":5}}`,
			`{"type":"structured-data","streamId":"custom:23","dataType":"kortyx.status","kind":"final","node":"planner","data":5}`,
		}},
		{"a question of a Kortyx agent", []chunk.Body{
			custom("kortyx.interrupt", `{"type":"interrupt","requestId":"q","workflow":"w","id":"i","schemaId":5,"input":{"kind":"text","multiple":false,"question":"Who?"},"meta":{"a":1}}`), chunk.RunPaused{RunID: "r1", Reason: "interrupt"}, chunk.StreamPaused{},
		}, []string{
			`{"type":"interrupt","requestId":"q","resumeToken":"","node":"planner","opId":"r1","workflow":"w","id":"i","input":{"kind":"text","multiple":false,"question":"Who?"},"meta":{"a":1}}`, `{"type":"done"}`, end,
		}},
		{"the state", []chunk.Body{
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(v(`1`))}}}, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/b", Value: new(v(`[]`))}}},
			chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/b/-", Value: new(v(`2`))}}}, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "remove", Path: "/none"}}},
		}, []string{
			`{"type":"structured-data","streamId":"state:s1","dataType":"state","kind":"set","node":"planner","path":"state","value":{"a":1}}`,
			`{"type":"structured-data","streamId":"state:s1","dataType":"state","kind":"set","node":"planner","path":"state.b","value":[]}`,
			`{"type":"structured-data","streamId":"state:s1","dataType":"state","kind":"append","node":"planner","path":"state.b","items":[2]}`,
		}},
		{"a failure", []chunk.Body{chunk.CheckpointCreated{RunID: "r1", CheckpointID: "cp"}, chunk.StreamFailed{Error: "boom"}}, []string{`{"type":"error","message":"boom"}`, `{"type":"done"}`, end}},
		{"an error that ends the run", []chunk.Body{chunk.TextDelta{Delta: "a"}, chunk.Error{Error: "boom"}, chunk.TextDelta{Delta: "b"}, chunk.StreamFailed{Error: "dead"}, chunk.StreamPaused{}}, []string{
			`{"type":"text-start","node":"planner","opId":"r1","segmentId":"block-11"}`, `{"type":"text-delta","node":"planner","opId":"r1","segmentId":"block-11","delta":"a"}`, `{"type":"text-end","node":"planner","opId":"r1","segmentId":"block-11"}`,
			`{"type":"error","message":"boom"}`, `{"type":"done"}`, end,
		}},
		{"a recoverable error", []chunk.Body{chunk.Error{Error: "busy", Recoverable: true}}, []string{`{"type":"status","message":"busy"}`}},
		{"a run that a user stopped", []chunk.Body{chunk.StreamFailed{Error: "stopped", ErrorDetail: &chunk.ErrorDetail{Message: "stopped", Code: new(aisdk.CodeAborted)}}}, []string{`{"type":"done"}`, end}},
		{"a run that is interrupted and continues", []chunk.Body{chunk.RunInterrupted{RunID: "r1"}, chunk.StreamEnd{StreamID: "s1"}, chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "continue"}, chunk.StreamEnd{StreamID: "s1"}}, []string{
			`{"type":"done"}`, end, `{"type":"session","sessionId":"s1"}`, `{"type":"done"}`, end,
		}},
		{"another turn", []chunk.Body{chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "b"}}, []string{`{"type":"done"}`, end}},
		{"another turn after the end", []chunk.Body{chunk.StreamEnd{StreamID: "s1"}, chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "b"}}, []string{`{"type":"done"}`, end}},
		{"removed records", []chunk.Body{
			custom("old", `1`), chunk.CheckpointCreated{RunID: "r1", CheckpointID: "cp"}, custom("new", `2`), kx(`"streamId":"s","dataType":"t","kind":"final","data":1`), chunk.Output{Output: v(`1`)},
			chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 4, Last: 6}}}, chunk.StreamResync{CheckpointID: "cp", Reason: "retry"}, kx(`"streamId":"s","dataType":"t","kind":"final","data":1`), chunk.Output{Output: v(`1`)},
		}, []string{
			`{"type":"structured-data","streamId":"custom:11","dataType":"old","kind":"final","node":"planner","data":1}`, `{"type":"structured-data","streamId":"custom:13","dataType":"new","kind":"final","node":"planner","data":2}`,
			`{"type":"structured-data","streamId":"s","dataType":"t","kind":"final","data":1}`, `{"type":"structured-data","streamId":"output:r1","dataType":"output","kind":"final","node":"planner","data":1}`,
			`{"type":"structured-data-invalidated","streamId":"custom:13","checkpointId":"cp"}`, `{"type":"structured-data-invalidated","streamId":"s","checkpointId":"cp"}`, `{"type":"structured-data-invalidated","streamId":"output:r1","checkpointId":"cp"}`,
			`{"type":"status","message":"The answer was rolled back to an earlier point and continues from there."}`,
			`{"type":"structured-data","streamId":"s@17","dataType":"t","kind":"final","data":1}`, `{"type":"structured-data","streamId":"output:19","dataType":"output","kind":"final","node":"planner","data":1}`,
		}},
		{"carried by default", []chunk.Body{
			chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k", CallID: "c", Result: v(`1`)}, chunk.StepStart{}, chunk.SuspensionMarker{Kind: "suspended_client_tool", Payload: v(`{}`)}, chunk.Thinking{Content: "hm"},
			chunk.Opaque{Kind: "new", Raw: v(`{"type":"new","agentId":"s1","agentType":"planner","timestamp":1,"step":1,"a":1}`)},
		}, []string{
			`{"type":"structured-data","streamId":"native:11","dataType":"native.chunk","kind":"final","node":"planner","data":{"chunk":{"type":"subagent_end","agentId":"s1","agentType":"planner","timestamp":1,"step":1,"subAgentType":"x","subSessionId":"k","callId":"c","result":1},"sequence":11}}`,
			`{"type":"structured-data","streamId":"native:15","dataType":"native.chunk","kind":"final","node":"planner","data":{"chunk":{"type":"new","agentId":"s1","agentType":"planner","timestamp":1,"step":1,"a":1},"sequence":15}}`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := lines(t, turnOf(t, tt.bodies...)); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// The end of a response has the cursor before [DONE], after which clients read nothing.
func TestEndOfAResponse(t *testing.T) {
	frames := write(turnOf(t, chunk.StreamFailed{Error: "x"}))
	const want = "data: {\"type\":\"error\",\"message\":\"x\"}\n\ndata: {\"type\":\"done\"}\n\nid: 11-b\n\ndata: [DONE]\n\n"
	if frames[1] != want {
		t.Errorf("got %q, want %q", frames[1], want)
	}
}

// A turn that waits for its sub-agents only continues in the same response. A question of a sub-agent ends it.
func TestSubAgents(t *testing.T) {
	request := chunk.ToolApprovalRequest{ToolCallID: "q", ToolName: "rm", ApprovalID: "a", Input: chunk.Value(`{}`)}
	child := session.Child("k")
	var log []chunk.Record
	last := map[chunk.Session]chunk.Ordinal{}
	add := func(s chunk.Session, b chunk.Body) {
		last[s]++
		log = append(log, recordOf(t, s, chunk.Seq(10+len(log)), 1, last[s], 1, b))
	}
	add(session, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"})
	add(session, chunk.ToolStart{ToolCallID: "c", ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
	add(session, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k", CallID: "c"})
	add(child, chunk.RunStarted{RunID: "rk", Epoch: 1, Mode: "execute"})
	add(child, chunk.TextDelta{Delta: "thinking"})
	add(session, chunk.StreamPaused{})
	add(child, request)
	add(child, chunk.StreamPaused{})
	add(child, chunk.RunStarted{RunID: "rk2", Epoch: 1, Mode: "with_confirmation"})
	add(child, chunk.ToolApprovalResponse{ToolCallID: "q", ToolName: "rm", ApprovalID: "a", Approved: true})
	add(child, chunk.ToolEnd{ToolCallID: "q", ToolName: "rm", Result: chunk.Value(`1`)})
	add(child, chunk.StreamEnd{StreamID: "k"})
	add(session, chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "continue"})
	add(session, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k", CallID: "c", Result: chunk.Value(`1`)})
	add(session, chunk.ToolEnd{ToolCallID: "c", ToolName: "subagent__x", Result: chunk.Value(`"ok"`)})
	add(session, chunk.StreamEnd{StreamID: "s1"})
	want := []string{
		`{"type":"tool-call-start","tool":"subagent__x","toolCallId":"c","node":"planner","opId":"r1","input":{}}`,
		`{"type":"interrupt","requestId":"a","resumeToken":"","node":"planner","opId":"r1","id":"tool:q","input":{"kind":"choice","multiple":false,"question":"Approve rm?","id":"tool:q","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}],"meta":{"tool":"rm","toolCallId":"q","input":{},"sessionId":"k"}}}`,
		`{"type":"done"}`, end, `{"type":"session","sessionId":"s1"}`,
		`{"type":"structured-data","streamId":"native:23","dataType":"native.chunk","kind":"final","node":"planner","data":{"chunk":{"type":"subagent_end","agentId":"s1","agentType":"planner","timestamp":1,"step":1,"subAgentType":"x","subSessionId":"k","callId":"c","result":1},"sequence":23}}`,
		`{"type":"tool-call-result","tool":"subagent__x","toolCallId":"c","node":"planner","opId":"r2","content":"ok"}`, `{"type":"done"}`, end,
	}
	if got := lines(t, log); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCallsThatWaitForTheClient: a run that waits for a sub-agent ends the response if the client runs a call, also one whose outcome was removed.
func TestCallsThatWaitForTheClient(t *testing.T) {
	call := chunk.ToolStart{ToolCallID: "c", ToolName: "f", Arguments: chunk.Value(`{}`)}
	outcome := chunk.ToolEnd{ToolCallID: "c", ToolName: "f", Result: chunk.Value(`1`)}
	request := chunk.ToolApprovalRequest{ToolCallID: "c", ToolName: "f", ApprovalID: "a", Input: chunk.Value(`{}`)}
	removal := chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 3, Last: 3}}}
	start, pause := chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k", CallID: "d"}, chunk.StreamPaused{}
	for name, test := range map[string]struct {
		bodies []chunk.Body
		done   bool
	}{
		"no outcome":               {[]chunk.Body{call, start, pause}, true},
		"an outcome":               {[]chunk.Body{call, outcome, start, pause}, false},
		"an outcome was removed":   {[]chunk.Body{call, outcome, removal, start, pause}, true},
		"a user has approved it":   {[]chunk.Body{request, chunk.ToolApprovalResponse{ToolCallID: "c", ToolName: "f", ApprovalID: "a", Approved: true}, start, pause}, false},
		"a sub-agent runs it":      {[]chunk.Body{call, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k", CallID: "c"}, pause}, false},
		"its start was removed":    {[]chunk.Body{chunk.TextDelta{Delta: "x"}, call, removal, start, pause}, false},
		"a user is asked about it": {[]chunk.Body{request, start, pause}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(nil)
			for _, rec := range turnOf(t, test.bodies...) {
				w.Append(nil, rec)
			}
			if w.Done() != test.done {
				t.Errorf("the response is over: %t, want %t", w.Done(), test.done)
			}
		})
	}
}

// A hidden record has at most the end of the text before it.
func TestHide(t *testing.T) {
	log := turnOf(t, chunk.TextDelta{Delta: "a"}, chunk.ToolStart{ToolCallID: "c", ToolName: "f", Arguments: chunk.Value(`{}`)}, chunk.TextDelta{Delta: "b"}, chunk.Custom{EventName: "x", Data: null}, chunk.TextDelta{Delta: "c"}, chunk.StreamEnd{StreamID: "s1"})
	w := NewWriter(nil)
	var got []string
	for i, rec := range log {
		if i == 2 || i == 4 {
			got = append(got, string(w.Hide(nil, rec)))
			continue
		}
		w.Append(nil, rec)
	}
	want := []string{"data: {\"type\":\"text-end\",\"node\":\"planner\",\"opId\":\"r1\",\"segmentId\":\"block-11\"}\n\nid: 12-c\n\n", ""}
	if !slices.Equal(got, want) || !w.Done() {
		t.Errorf("got %q, want %q, done %t", got, want, w.Done())
	}
}

// Data that the client's reducer would refuse here is dropped and counted.
func TestRefusedData(t *testing.T) {
	deep := chunk.Value(strings.Repeat("[", 28) + strings.Repeat("]", 28))
	nested := chunk.Value(`{"a":` + deep.String() + `}`)
	set := func(path string, v chunk.Value) chunk.StatePatch {
		return chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: path, Value: &v}}}
	}
	var many []chunk.PatchOp
	for i := range 2 * maxOps {
		many = append(many, chunk.PatchOp{Op: "add", Path: fmt.Sprintf("/n%d", i), Value: new(chunk.Value("1"))})
	}
	log := turnOf(t, chunk.Custom{EventName: strings.Repeat("x", structured.MaxLabel+1), Data: null}, set("/a", nested), set("/a/b", nested), set("/a/a", null), chunk.StatePatch{Patches: many},
		chunk.StatePatch{Patches: many[:maxSets+1]})
	got := lines(t, log)
	if len(got) != 6 || !strings.Contains(got[0], `"native:11"`) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// The streams that are remembered for an invalidation are bounded.
func TestSentStreamsAreBounded(t *testing.T) {
	var d sentData
	for i := range 3 * maxSent {
		d.add(sentStream{name: "custom", at: chunk.Seq(i)})
	}
	for range 100 {
		d.add(sentStream{name: "s", at: 5, own: true})
	}
	if len(d.list) > maxSent || len(d.since(0)) > maxSent {
		t.Errorf("%d streams", len(d.list))
	}
}
