package mastra

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// Responses as lists of chunks, each ended by the end of the body, and the resulting chunks.
func TestResponses(t *testing.T) {
	nested := func(run, kind, payload string) string {
		return fmt.Sprintf(`{"type":"tool-output","runId":"r","from":"USER","payload":{"toolCallId":"c1","toolName":"agent-helper","output":{"type":%q,"runId":%q,"from":"AGENT","payload":%s}}}`, kind, run, payload)
	}
	const (
		text     = `{"type":"text-delta","payload":{"id":"t","text":"a"}}`
		bad      = `{"type":"error","payload":{"error":"bad"}}`
		good     = `{"type":"finish","payload":{"stepResult":{"reason":"stop"}}}`
		failed   = `{"type":"finish","payload":{"stepResult":{"reason":"error"}}}`
		object   = `{"type":"object-result","object":{"a":1}}`
		result   = `{"type":"tool-result","payload":{"toolCallId":"c1","toolName":"agent-helper","result":1}}`
		broke    = `{"type":"tool-error","payload":{"toolCallId":"c1","toolName":"agent-helper","error":"down"}}`
		ask      = `{"type":"tool-call-approval","runId":"r","payload":{"toolCallId":"c1","toolName":"agent-helper","args":{}}}`
		denied   = `{"type":"tool-output-denied","runId":"r","payload":{"toolCallId":"c1","approval":{"reason":"no"}}}`
		tripwire = `{"type":"tripwire","payload":{"reason":"blocked"}}`
		abort    = `{"type":"abort","runId":"r","payload":{}}`
	)
	separator := "" // starts the next response
	for _, tt := range []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"no chunk", nil, []string{`stream_failed "the stream of the agent broke off"`}},
		{"interrupted", []string{text}, []string{`text_delta`, `stream_failed "the stream of the agent broke off"`}},
		{"interrupted after an error", []string{bad}, []string{`error`, `stream_failed "bad"`}},
		{"a recoverable error", []string{bad, text, good}, []string{`error`, `text_delta`, `stream_end`}},
		{"a fatal error", []string{bad, failed}, []string{`error`, `stream_failed "bad"`}},
		{"a failure without a reason", []string{failed}, []string{`stream_failed "the agent failed without saying why"`}},
		{"a final object", []string{object, good}, []string{`output`, `stream_end {"a":1}`}},
		{"two finishes", []string{good, good}, []string{`stream_end`}},
		{"text after the finish", []string{good, text}, []string{`text_delta`, `stream_end`}},
		{"stopped by a guard", []string{tripwire}, []string{`error`, `stream_failed "blocked"`}},
		{"a guard, then a finish", []string{tripwire, good}, []string{`error`, `stream_end`}},
		{"an abort without a finish", []string{abort}, []string{`run_interrupted`, `stream_end`}},
		{
			"a completed network",
			[]string{`{"type":"network-execution-event-finish","from":"NETWORK","payload":{}}`},
			[]string{`custom mastra.network-execution-event-finish`, `stream_end`},
		},
		{
			"a waiting network",
			[]string{`{"type":"tool-execution-approval","from":"NETWORK","payload":{"toolCallId":"c1"}}`},
			[]string{`custom mastra.tool-execution-approval`, `stream_paused "network_suspended"`},
		},
		{
			"a waiting workflow",
			[]string{`{"type":"workflow-finish","payload":{"workflowStatus":"waiting"}}`},
			[]string{`stream_paused "workflow_waiting"`},
		},
		{
			"a workflow that is canceled",
			[]string{`{"type":"workflow-finish","payload":{"workflowStatus":"canceled"}}`},
			[]string{`run_interrupted`, `stream_end`},
		},
		{
			"a workflow that fails in a step",
			[]string{
				`{"type":"workflow-step-result","payload":{"id":"one","status":"failed","error":{"message":"boom"}}}`,
				`{"type":"workflow-finish","payload":{"workflowStatus":"failed"}}`,
			},
			[]string{`custom mastra.workflow-step-result`, `step_end`, `stream_failed "boom"`},
		},
		{
			"a pending approval",
			[]string{ask},
			[]string{`tool_approval_request`, `stream_paused "tool_approval"`},
		},
		{
			"an approval in the next response",
			[]string{ask, separator, result, good},
			[]string{`tool_approval_request`, `stream_paused "tool_approval"`, `stream_active`, `tool_end`, `stream_end`},
		},
		{
			"the next response is interrupted",
			[]string{ask, separator, result},
			[]string{`tool_approval_request`, `stream_paused "tool_approval"`, `stream_active`, `tool_end`, `stream_failed "the stream of the agent broke off"`},
		},
		{
			"a sub-agent without a finish before the result of its call",
			[]string{nested("k", "text-delta", `{"text":"x"}`), result, good},
			[]string{`subagent_start k`, `k/text_delta`, `k/stream_end`, `subagent_end "x"`, `tool_end`, `stream_end`},
		},
		{
			"a sub-agent whose call fails",
			[]string{nested("k", "text-delta", `{"text":"x"}`), broke, good},
			[]string{`subagent_start k`, `k/text_delta`, `k/stream_failed "down"`, `subagent_end {"error":"down"}`, `tool_end`, `stream_end`},
		},
		{
			"a sub-agent whose call is denied",
			[]string{nested("k", "text-delta", `{"text":"x"}`), denied, good},
			[]string{`subagent_start k`, `k/text_delta`, `k/stream_failed "no"`, `subagent_end {"error":"no"}`, `tool_approval_response`, `stream_end`},
		},
		{
			"a sub-agent that fails",
			[]string{nested("k", "error", `{"error":"worse"}`), nested("k", "finish", `{"stepResult":{"reason":"error"}}`), result, good},
			[]string{`subagent_start k`, `k/error`, `k/stream_failed "worse"`, `subagent_end {"error":"worse"}`, `tool_end`, `stream_end`},
		},
		{
			"a response that is interrupted while a sub-agent runs",
			[]string{nested("k", "text-delta", `{"text":"x"}`)},
			[]string{`subagent_start k`, `k/text_delta`, `k/stream_failed "the stream of the agent broke off"`, `subagent_end {"error":"the stream of the agent broke off"}`, `stream_failed "the stream of the agent broke off"`},
		},
		{
			"a sub-agent that is suspended with its parent and resumed",
			[]string{nested("k", "text-delta", `{"text":"x"}`), ask, separator, nested("k", "text-delta", `{"text":"y"}`), nested("k", "finish", `{}`), result, good},
			[]string{
				`subagent_start k`, `k/text_delta`, `tool_approval_request`, `k/stream_paused "tool_approval"`, `stream_paused "tool_approval"`,
				`stream_active`, `k/stream_active`, `k/text_delta`, `k/stream_end`, `subagent_end "xy"`, `tool_end`, `stream_end`,
			},
		},
		{
			"two sub-agents on two levels",
			[]string{nested("k", "tool-output", `{"toolCallId":"c2","toolName":"agent-leaf","output":{"type":"text-delta","runId":"l","from":"AGENT","payload":{"text":"z"}}}`), result, good},
			[]string{`subagent_start k`, `k/subagent_start l`, `l/text_delta`, `l/stream_failed "the stream of the agent broke off"`, `k/subagent_end {"error":"the stream of the agent broke off"}`, `k/stream_end`, `subagent_end ""`, `tool_end`, `stream_end`},
		},
		{
			"a sub-agent that calls itself is kept as an event",
			[]string{nested("s1", "text-delta", `{"text":"x"}`), good},
			[]string{`custom tool-output`, `stream_end`},
		},
		{
			"a sub-agent with an invalid session id is kept as an event",
			[]string{nested("a b", "text-delta", `{"text":"x"}`), good},
			[]string{`custom tool-output`, `stream_end`},
		},
		{
			"two halves of a character",
			[]string{nested("k", "text-delta", `{"text":"\ud83d"}`), nested("k", "text-delta", `{"text":"\ude00"}`), result, good},
			[]string{`subagent_start k`, `k/text_delta`, `k/text_delta`, `k/stream_end`, `subagent_end "😀"`, `tool_end`, `stream_end`},
		},
		{
			"one half of a character",
			[]string{nested("k", "text-delta", `{"text":"\ud83d"}`), result, good},
			[]string{`subagent_start k`, `k/text_delta`, `k/stream_end`, `subagent_end "\ud83d"`, `tool_end`, `stream_end`},
		},
		{
			"streamed arguments without a call",
			[]string{
				`{"type":"tool-call-input-streaming-start","payload":{"toolCallId":"c1","toolName":"search"}}`,
				`{"type":"tool-call-delta","payload":{"toolCallId":"c1","argsTextDelta":"{\"q\":1}"}}`, result, good,
			},
			[]string{`tool_arg_stream_start`, `tool_arg_stream_delta`, `tool_start {"q":1}`, `tool_end`, `stream_end`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := New(codec.Run{Session: "s1"})
			var got []string
			add := func(chunks []chunk.Chunk) {
				for _, c := range chunks {
					checkChunk(t, c)
					got = append(got, short(c))
				}
			}
			for _, line := range tt.chunks {
				if line == separator {
					add(tr.End())
					continue
				}
				chunks, err := tr.Translate([]byte(line))
				if err != nil {
					t.Fatal(err)
				}
				add(chunks)
			}
			add(tr.End())
			if again := tr.End(); again != nil {
				t.Errorf("a second End says %v", again)
			}
			if g, w := strings.Join(got, "\n"), strings.Join(tt.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}

// short returns the type of a chunk with the member that identifies it.
func short(c chunk.Chunk) string {
	out := string(c.Type())
	if c.AgentID != "s1" {
		out = c.AgentID + "/" + out
	}
	switch b := c.Body.(type) {
	case chunk.StreamFailed:
		out += fmt.Sprintf(" %q", b.Error)
	case chunk.StreamEnd:
		if b.FinalOutput != nil {
			out += " " + b.FinalOutput.String()
		}
	case chunk.StreamPaused:
		out += fmt.Sprintf(" %q", *b.Reason)
	case chunk.SubagentStart:
		out += " " + b.SubSessionID
	case chunk.SubagentEnd:
		out += " " + b.Result.String()
	case chunk.ToolStart:
		out += " " + b.Arguments.String()
	case chunk.Custom:
		out += " " + b.EventName
	}
	return out
}

// A response of a run that started in another process continues at its step.
func TestAnotherTranslatorContinues(t *testing.T) {
	tr := New(codec.Run{Session: "s1", AgentType: "mine", RunID: "r1", Step: 3})
	for i, line := range []string{
		`{"type":"tool-output-denied","payload":{"toolCallId":"c1","toolName":"search"}}`,
		`{"type":"start","payload":{"id":"theirs","messageId":"m1"}}`,
		`{"type":"step-start","payload":{}}`,
		`{"type":"object","object":{"a":1}}`,
	} {
		chunks, err := tr.Translate([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"3 tool_approval_response r1::c1 mine", "", "4 step_start mine", ""}[i]
		var got string
		for _, c := range chunks {
			got = fmt.Sprintf("%d %s", c.Step, c.Type())
			if b, ok := chunk.As[chunk.ToolApprovalResponse](c); ok {
				got += " " + b.ApprovalID
			}
			if b, ok := chunk.As[chunk.Custom](c); ok {
				got += " " + b.EventName
			}
			got += " " + c.AgentType
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// Input that is not a chunk is rejected and changes nothing.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"nothing", ``},
		{"no JSON", `{"type":`},
		{"no object", `["type"]`},
		{"no type", `{"payload":{}}`},
		{"an empty type", `{"type":""}`},
		{"a type of another kind", `{"type":5}`},
		{"two types", `{"type":"finish","type":"error"}`},
		{"more than one value", `{"type":"step-start"} {}`},
		{"members of the chunk around it", `{"type":"step-start"},"eventName":"x"`},
		{"no UTF-8", "{\"type\":\"\xff\"}"},
		{"too deep", `{"type":"data-x","data":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`},
		{"far too deep", `{"type":"data-x","data":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := New(codec.Run{Session: "s1"})
			chunks, err := tr.Translate([]byte(tt.raw))
			if !errors.Is(err, chunk.ErrInvalid) || chunks != nil {
				t.Fatalf("%v, %v, want ErrInvalid", chunks, err)
			}
			if chunks, err = tr.Translate([]byte(` {"type":"step-start"}` + "\n")); err != nil || len(chunks) != 1 || chunks[0].Step != 1 {
				t.Errorf("afterwards %+v, %v", chunks, err)
			}
		})
	}
}

// The last step-finish of a long run repeats the whole run and exceeds the limits; only its own members are translated.
func TestTheEndOfALongRun(t *testing.T) {
	history := strings.TrimSuffix(strings.Repeat(`{"content":[{"type":"text","text":"x"}]},`, 10_000), ",")
	for _, wrap := range []string{"%s", `{"type":"tool-output","payload":{"toolCallId":"c1","toolName":"agent-x","output":%s}}`} {
		line := fmt.Sprintf(wrap, `{"type":"step-finish","runId":"k","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{"inputTokens":1,"outputTokens":2},"steps":[`+history+`]},"messages":{"all":[`+history+`]}}}`)
		tr := New(codec.Run{Session: "s1"})
		chunks, err := tr.Translate([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		end, ok := chunk.As[chunk.StepEnd](chunks[len(chunks)-1])
		if !ok || end.Usage == nil || end.Usage.OutputTokens != "2" || *end.FinishReason != "stop" {
			t.Errorf("%+v", chunks)
		}
	}
}
