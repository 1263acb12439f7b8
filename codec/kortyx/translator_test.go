package kortyx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// short returns what a chunk says.
func short(c chunk.Chunk) string {
	out := string(c.Type())
	opt := func(s *string) string {
		if s == nil {
			return "-"
		}
		return fmt.Sprintf("%q", *s)
	}
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		out += fmt.Sprintf(" %q", b.Delta)
	case chunk.ToolStart:
		out += fmt.Sprintf(" %s %s %s", b.ToolCallID, b.ToolName, b.Arguments)
	case chunk.ToolEnd:
		out += fmt.Sprintf(" %s %s %s %s %t", b.ToolCallID, b.ToolName, b.Result, opt(b.Error), *b.ProviderExecuted)
	case chunk.ToolApprovalRequest:
		out += fmt.Sprintf(" %s %s %s %s", b.ToolCallID, b.ToolName, b.ApprovalID, b.Input)
	case chunk.Custom:
		out += fmt.Sprintf(" %s %s", b.EventName, b.Data)
	case chunk.Output:
		out += " " + b.Output.String()
	case chunk.RunPaused:
		out += fmt.Sprintf(" %s %s", b.RunID, b.Reason)
	case chunk.CheckpointCreated:
		out += fmt.Sprintf(" %s %s %d", b.RunID, b.CheckpointID, b.StepCount)
	case chunk.Error:
		out += fmt.Sprintf(" %q %t", b.Error, b.Recoverable)
	case chunk.StreamFailed:
		out += fmt.Sprintf(" %q", b.Error)
	case chunk.StreamPaused:
		out += fmt.Sprintf(" %q", *b.Reason)
	case chunk.StreamEnd:
		if b.FinalOutput != nil {
			out += " " + b.FinalOutput.String()
		}
	}
	return out
}

// endOfBody is where a response ends.
const endOfBody = "---"

// translated returns what lines become, with End at each endOfBody.
func translated(t *testing.T, cfg codec.Run, lines ...string) ([]string, codec.Translator) {
	t.Helper()
	tr := New(cfg)
	var got []string
	for _, line := range lines {
		var chunks []chunk.Chunk
		var err error
		if line == endOfBody {
			chunks = tr.End()
		} else if chunks, err = tr.Translate([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, c := range chunks {
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			got = append(got, short(c))
		}
	}
	return got, tr
}

const (
	approval = `{"type":"interrupt","requestId":"q1","resumeToken":"secret","id":"tool:c1","input":{"kind":"choice","multiple":false,"question":"Approve rm?","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}],"meta":{"tool":"rm","toolCallId":"c1","input":{"path":"/"}}}}`
	question = `{"type":"interrupt","requestId":"q2","resumeToken":"secret","input":{"kind":"text","multiple":false,"question":"Who?","options":[]},"meta":{"x":[{"resumeToken":"secret","y":1}]}}`
	done     = `{"type":"done","data":{"config":"secret"}}`
)

// Each chunk type has its counterpart, or is kept; the end of a body is as its chunks say.
func TestTranslate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"session and trace", []string{`{"type":"session","sessionId":"x"}`, `{"type":"trace","traceId":"t","spanId":"s","runId":"kr","rootSpanName":"kortyx.run"}`, `{"type":"checkpoint","id":"cp","sessionId":"x","turnIndex":3,"label":"l"}`}, []string{
			`custom kortyx.rest {"type":"trace","traceId":"t","spanId":"s","rootSpanName":"kortyx.run"}`,
			`checkpoint_created kr cp 3`,
			`custom kortyx.rest {"type":"checkpoint","sessionId":"x","label":"l"}`,
		}},
		{"text", []string{`{"type":"text-start","opId":"o","segmentId":"1"}`, `{"type":"text-delta","opId":"o","segmentId":"1","delta":"Hel"}`, `{"type":"text-delta","opId":"o","segmentId":"1","delta":"lo"}`, `{"type":"text-delta","delta":""}`, `{"type":"text-end","opId":"o","segmentId":"1"}`}, []string{`text_delta "Hel"`, `text_delta "lo"`}},
		{"blocks of text", []string{`{"type":"text-delta","opId":"o","segmentId":"1","delta":"a"}`, `{"type":"text-delta","opId":"o","segmentId":"2","delta":"b"}`, `{"type":"text-delta","segmentId":"2","delta":" c\n"}`, `{"type":"text-delta","opId":"p","delta":"d"}`, `{"type":"text-delta","id":"i","node":"n","delta":"e"}`, `{"type":"text-delta","node":"n","delta":"\u00a0f"}`, `{"type":"text-delta","delta":"g"}`, `{"type":"text-delta","node":"n","delta":"h"}`}, []string{`text_delta "a"`, `text_delta " b"`, `text_delta " c\n"`, `text_delta "d"`, `text_delta " e"`, "text_delta \"\\u00a0f\"", `text_delta "g"`, `text_delta "h"`}},
		{"a message", []string{`{"type":"message","content":"whole"}`, `{"type":"message","content":"another"}`, `{"type":"message","content":""}`}, []string{`text_delta "whole"`, `text_delta "another"`}},
		{"a message after its deltas", []string{`{"type":"text-delta","delta":"whole"}`, `{"type":"message","content":"whole"}`}, []string{`text_delta "whole"`}},
		{"a call", []string{`{"type":"tool-call-start","tool":"f","toolCallId":"c","input":{"a":1}}`, `{"type":"tool-call-start","tool":"f","toolCallId":"c","input":{"a":1}}`, `{"type":"tool-call-result","tool":"f","toolCallId":"c","content":"text","structuredContent":{"n":1}}`}, []string{
			`tool_start c f {"a":1}`,
			`tool_end c f {"n":1} - true`,
			`custom kortyx.rest {"type":"tool-call-result","content":"text"}`,
		}},
		{"inputs", []string{`{"type":"tool-call-start","tool":"f","toolCallId":"c"}`, `{"type":"tool-call-start","tool":"f","toolCallId":"d","input":[1]}`, `{"type":"tool-call-start","tool":"f","toolCallId":"e","input":null}`}, []string{`tool_start c f {}`, `tool_start d f {"value":[1]}`, `tool_start e f {}`}},
		{"results", []string{`{"type":"tool-call-result","tool":"f","toolCallId":"c","content":"text","structuredContent":null}`, `{"type":"tool-call-result","tool":"f","toolCallId":"d"}`}, []string{`tool_end c f "text" - true`, `tool_end d f null - true`}},
		{"failed calls", []string{
			`{"type":"tool-call-result","tool":"f","toolCallId":"c","content":"no","isError":true}`,
			`{"type":"tool-call-result","tool":"f","toolCallId":"c","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"isError":true}`,
			`{"type":"tool-call-result","tool":"f","toolCallId":"c","content":{"code":5},"isError":true}`,
			`{"type":"tool-call-error","tool":"f","toolCallId":"c","message":"down"}`,
		}, []string{
			`tool_end c f "no" "no" true`, `tool_end c f [{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}] "a\nb" true`,
			`tool_end c f {"code":5} "{\"code\":5}" true`, `tool_end c f null "down" true`,
		}},
		{"structured data", []string{`{"type":"structured-data","streamId":"s","dataType":"other","kind":"final","data":1}`, `{"type":"structured-data","streamId":"s2","dataType":"report","kind":"set","path":"a","value":2}`, `{"type":"structured-data","streamId":"s2","dataType":"report","kind":"final","data":{"a":2}}`, done, endOfBody}, []string{
			`custom structured-data {"type":"structured-data","streamId":"s","dataType":"other","kind":"final","data":1}`,
			`custom structured-data {"type":"structured-data","streamId":"s2","dataType":"report","kind":"set","path":"a","value":2}`,
			`custom structured-data {"type":"structured-data","streamId":"s2","dataType":"report","kind":"final","data":{"a":2}}`, `stream_end`,
		}},
		{"chunks without a counterpart", []string{`{"type":"status","message":"m"}`, `{"type":"transition","transitionTo":"w","payload":{"a":1}}`, `{"type":"tool-result","content":1}`, `{"type":"structured-data-invalidated","streamId":"s","checkpointId":"c"}`, `{"type":"new","resumeToken":"secret","a":[1]}`, "{\"type\":\"a\\u0001\"}"}, []string{
			`custom kortyx.status {"type":"status","message":"m"}`, `custom kortyx.transition {"type":"transition","transitionTo":"w","payload":{"a":1}}`, `custom kortyx.tool-result {"type":"tool-result","content":1}`,
			`custom structured-data-invalidated {"type":"structured-data-invalidated","streamId":"s","checkpointId":"c"}`, `custom kortyx.new {"type":"new","a":[1]}`, `custom kortyx.unknown {"type":"a\u0001"}`,
		}},
		{"malformed chunks", []string{`{"type":"text-delta"}`, `{"type":"message","content":5}`, `{"type":"tool-call-start","tool":"f"}`, `{"type":"tool-call-error","tool":"f","toolCallId":"c"}`, `{"type":"checkpoint","id":"x","turnIndex":-1}`, `{"type":"checkpoint","id":"x","turnIndex":1.5}`}, []string{
			`custom kortyx.text-delta {"type":"text-delta"}`, `custom kortyx.message {"type":"message","content":5}`, `custom kortyx.tool-call-start {"type":"tool-call-start","tool":"f"}`,
			`custom kortyx.tool-call-error {"type":"tool-call-error","tool":"f","toolCallId":"c"}`, `custom kortyx.checkpoint {"type":"checkpoint","id":"x","turnIndex":-1}`, `custom kortyx.checkpoint {"type":"checkpoint","id":"x","turnIndex":1.5}`,
		}},
		{"an approval", []string{approval, `{"type":"checkpoint","id":"cp","sessionId":"x","turnIndex":0}`, done, endOfBody, endOfBody}, []string{
			`tool_approval_request c1 rm q1 {"path":"/"}`,
			`custom kortyx.rest {"type":"interrupt","id":"tool:c1","input":{"kind":"choice","question":"Approve rm?","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]}}`,
			`checkpoint_created  cp 0`,
			`custom kortyx.rest {"type":"checkpoint","sessionId":"x"}`,
			`stream_paused "tool_approval"`,
		}},
		{"a question", []string{question, done, endOfBody}, []string{`custom kortyx.interrupt {"type":"interrupt","requestId":"q2","input":{"kind":"text","multiple":false,"question":"Who?","options":[]},"meta":{"x":[{"y":1}]}}`, `run_paused  interrupt`, `stream_paused "interrupt"`}},
		{"an approval without its tool is a question", []string{`{"type":"interrupt","requestId":"q1","resumeToken":"t","id":"tool:c1","input":{}}`, done, endOfBody}, []string{`custom kortyx.interrupt {"type":"interrupt","requestId":"q1","id":"tool:c1","input":{}}`, `run_paused  interrupt`, `stream_paused "interrupt"`}},
		{"a resumed run", []string{`{"type":"tool-call-start","tool":"rm","toolCallId":"c1","input":{}}`, approval, done, endOfBody, `{"type":"session","sessionId":"x"}`, `{"type":"tool-call-start","tool":"rm","toolCallId":"c1","input":{}}`, `{"type":"tool-call-result","tool":"rm","toolCallId":"c1","content":"ok"}`, done, endOfBody}, []string{
			`tool_start c1 rm {}`,
			`tool_approval_request c1 rm q1 {"path":"/"}`,
			`custom kortyx.rest {"type":"interrupt","id":"tool:c1","input":{"kind":"choice","question":"Approve rm?","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]}}`,
			`stream_paused "tool_approval"`,
			`stream_active`,
			`tool_end c1 rm "ok" - true`,
			`stream_end`,
		}},
		{"the end", []string{done, `{"type":"text-delta","delta":"late"}`, endOfBody, `{"type":"text-delta","delta":"later"}`, endOfBody}, []string{
			`custom kortyx.text-delta {"type":"text-delta","delta":"late"}`,
			`stream_end`,
		}},
		{"an error and done", []string{`{"type":"error","message":"boom"}`, done, endOfBody}, []string{`error "boom" false`, `stream_failed "boom"`}},
		{"an error without done", []string{`{"type":"error","message":"boom"}`, `{"type":"text-delta","delta":"x"}`, endOfBody}, []string{`error "boom" false`, `text_delta "x"`, `stream_failed "boom"`}},
		{"an error without a text", []string{`{"type":"error"}`, endOfBody}, []string{`error "the agent failed without saying why" false`, `stream_failed "the agent failed without saying why"`}},
		{"an error after a question", []string{question, `{"type":"error","message":"boom"}`, done, endOfBody}, []string{`custom kortyx.interrupt {"type":"interrupt","requestId":"q2","input":{"kind":"text","multiple":false,"question":"Who?","options":[]},"meta":{"x":[{"y":1}]}}`, `run_paused  interrupt`, `error "boom" false`, `stream_failed "boom"`}},
		{"a lost connection", []string{`{"type":"text-delta","delta":"x"}`, endOfBody}, []string{`text_delta "x"`, `stream_failed "the stream of the agent broke off"`}},
		{"a lost connection after a question", []string{approval, endOfBody}, []string{
			`tool_approval_request c1 rm q1 {"path":"/"}`,
			`custom kortyx.rest {"type":"interrupt","id":"tool:c1","input":{"kind":"choice","question":"Approve rm?","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]}}`,
			`stream_failed "the stream of the agent broke off"`,
		}},
		{"an empty body", []string{endOfBody}, []string{`stream_failed "the stream of the agent broke off"`}},
		{"a lost connection after the answer to a question", []string{approval, done, endOfBody, `{"type":"session","sessionId":"x"}`, endOfBody}, []string{
			`tool_approval_request c1 rm q1 {"path":"/"}`,
			`custom kortyx.rest {"type":"interrupt","id":"tool:c1","input":{"kind":"choice","question":"Approve rm?","options":[{"id":"approve","label":"Approve"},{"id":"deny","label":"Deny"}]}}`,
			`stream_paused "tool_approval"`,
			`stream_active`,
			`stream_failed "the stream of the agent broke off"`,
		}},
		{"a done that is too large for a chunk", []string{`{"data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"type":"done"}`, endOfBody}, []string{`stream_end`}},
		{"halves of a character", []string{`{"type":"text-delta","delta":"\ud83d"}`, `{"type":"text-delta","delta":"\ude00"}`}, []string{"text_delta \"\\xed\\xa0\\xbd\"", "text_delta \"\\xed\\xb8\\x80\""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := translated(t, codec.Run{Session: "s1"}, tt.lines...)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			for _, line := range got {
				if strings.Contains(line, "secret") {
					t.Errorf("a secret is in the log: %s", line)
				}
			}
		})
	}
}

// The agent is the one of the configuration, or the node of the workflow.
func TestAgentType(t *testing.T) {
	lines := []string{`{"type":"text-delta","delta":"a"}`, `{"type":"text-delta","node":"plan","delta":"b"}`, `{"type":"text-delta","delta":"c"}`}
	for _, tt := range []struct{ config, want string }{{"", "agent,plan,plan"}, {"mine", "mine,mine,mine"}} {
		tr := New(codec.Run{Session: "s1", AgentType: tt.config, RunID: "r", Step: 4})
		var got []string
		for _, line := range lines {
			chunks, err := tr.Translate([]byte(line))
			if err != nil || len(chunks) != 1 || chunks[0].AgentID != "s1" || chunks[0].Step != 4 {
				t.Fatalf("%+v, %v", chunks, err)
			}
			got = append(got, chunks[0].AgentType)
		}
		if strings.Join(got, ",") != tt.want {
			t.Errorf("%q: got %s, want %s", tt.config, got, tt.want)
		}
	}
}

// Input that is not a chunk is rejected and changes nothing.
func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"nothing", ``},
		{"the end marker", `[DONE]`},
		{"no JSON", `{"type":`},
		{"no object", `["type"]`},
		{"no type", `{"content":"x"}`},
		{"an empty type", `{"type":""}`},
		{"a type of another kind", `{"type":5}`},
		{"two types", `{"type":"done","type":"error"}`},
		{"more than one value", `{"type":"done"} {}`},
		{"members of the chunk around it", `{"type":"done"},"eventName":"x"`},
		{"no UTF-8", "{\"type\":\"\xff\"}"},
		{"too deep", `{"type":"status","data":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`},
		{"a done that is far too deep", `{"type":"done","data":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := New(codec.Run{Session: "s1"})
			chunks, err := tr.Translate([]byte(tt.raw))
			if !errors.Is(err, chunk.ErrInvalid) || chunks != nil {
				t.Fatalf("%v, %v, want ErrInvalid", chunks, err)
			}
			if chunks, err = tr.Translate([]byte(` {"type":"text-delta","delta":"x"}` + "\n")); err != nil || len(chunks) != 1 {
				t.Errorf("afterwards %+v, %v", chunks, err)
			}
		})
	}
}
