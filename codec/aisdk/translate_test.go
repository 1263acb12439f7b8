package aisdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// translated returns the chunks of a response, one a line without their head: its step and the rest.
func translated(t *testing.T, tr codec.Translator, parts string) string {
	t.Helper()
	var out strings.Builder
	write := func(list []chunk.Chunk) {
		for _, c := range list {
			line, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			_, rest, _ := strings.Cut(string(line), fmt.Sprintf(`"step":%d`, c.Step))
			fmt.Fprintf(&out, "%d %s%s\n", c.Step, c.Type(), strings.TrimSuffix(rest, "}"))
			if c.AgentID != "s1" || c.AgentType != "support" || c.Timestamp != 0 {
				t.Errorf("head of %s", line)
			}
		}
	}
	for line := range strings.Lines(parts) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		list, err := tr.Translate([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		write(list)
	}
	write(tr.End())
	return out.String()
}

func newTestTranslator() codec.Translator {
	return NewTranslator(codec.Run{Session: "s1", AgentType: "support", RunID: "r1"})
}

// A server that uses the id of a question twice gets the same chunks each time: the answer is that of one of the two calls.
func TestQuestionsWithOneID(t *testing.T) {
	var parts strings.Builder
	parts.WriteString(`{"type":"start-step"}`)
	for _, id := range []string{"c1", "c2", "c3"} {
		fmt.Fprintf(&parts, `
{"type":"tool-input-available","toolCallId":"%[1]s","toolName":"del","input":{}}
{"type":"tool-approval-request","toolCallId":"%[1]s","approvalId":"a"}`, id)
	}
	parts.WriteString(`
{"type":"tool-approval-response","approvalId":"a","approved":true}`)
	for range 20 {
		if got := translated(t, newTestTranslator(), parts.String()); !strings.Contains(got, `tool_approval_response,"toolCallId":"c1"`) {
			t.Fatalf("the answer is not that of the first call:\n%s", got)
		}
	}
}

// Each part has the chunks of the table in the package doc, and every end of a response its record.
func TestTranslator(t *testing.T) {
	for name, c := range map[string]struct{ parts, want string }{
		"text and reasoning": {`{"type":"start","messageId":"m7","messageMetadata":{"a":1}}
{"type":"start-step"}
{"type":"reasoning-start","id":"r"}
{"type":"reasoning-delta","id":"r","delta":"Hm.","providerMetadata":{"p":{"sig":"x"}}}
{"type":"reasoning-end","id":"r"}
{"type":"text-start","id":"t"}
{"type":"text-delta","id":"t","delta":"Hello "}
{"type":"text-delta","id":"t","delta":""}
{"type":"text-end","id":"t"}
{"type":"finish-step"}
{"type":"message-metadata","messageMetadata":{"b":2}}
{"type":"finish","finishReason":"length"}`, `1 step_start
1 custom,"eventName":"message-metadata","data":{"type":"message-metadata","messageMetadata":{"a":1}}
1 thinking,"content":"Hm.","isComplete":false,"part":{"providerMetadata":{"p":{"sig":"x"}}}
1 thinking,"content":"","isComplete":true
1 text_delta,"delta":"Hello "
1 custom,"eventName":"message-metadata","data":{"type":"message-metadata","messageMetadata":{"b":2}}
1 step_end,"finishReason":"length"
1 stream_end,"streamId":"s1"
`},
		"texts without anything between them, and one without text": {`{"type":"start-step"}
{"type":"text-start","id":"a"}
{"type":"text-delta","id":"a","delta":"A"}
{"type":"text-end","id":"a"}
{"type":"data-n","data":1}
{"type":"text-start","id":"b"}
{"type":"text-delta","id":"b","delta":"B"}
{"type":"text-end","id":"b","providerMetadata":{"p":{"a":1}}}
{"type":"reasoning-start","id":"r","providerMetadata":{"p":{"id":"x"}}}
{"type":"reasoning-end","id":"r"}
{"type":"text-start","id":"c"}
{"type":"text-end","id":"c"}
{"type":"finish-step"}
{"type":"finish"}`, `1 step_start
1 text_delta,"delta":"A"
1 custom,"eventName":"n","data":1
1 text_delta,"delta":"B","part":{"begins":true}
1 text_delta,"delta":"","part":{"providerMetadata":{"p":{"a":1}}}
1 thinking,"content":"","isComplete":true,"part":{"providerMetadata":{"p":{"id":"x"}}}
1 step_end
1 stream_end,"streamId":"s1"
`},
		"a text that continues after the step of another text": {`{"type":"start-step"}
{"type":"text-start","id":"A"}
{"type":"text-delta","id":"A","delta":"A1 "}
{"type":"start-step"}
{"type":"text-start","id":"B"}
{"type":"text-delta","id":"B","delta":"B1"}
{"type":"text-end","id":"B"}
{"type":"finish-step"}
{"type":"text-delta","id":"A","delta":"A2"}
{"type":"text-end","id":"A"}
{"type":"finish-step"}
{"type":"finish","finishReason":"stop"}`, `1 step_start
1 text_delta,"delta":"A1 "
2 step_start
2 text_delta,"delta":"B1"
2 step_end
2 text_delta,"delta":"A2","part":{"begins":true}
2 step_end,"finishReason":"stop"
2 stream_end,"streamId":"s1"
`},
		"the reason of the last step": {`{"type":"start-step"}
{"type":"finish-step"}
{"type":"start-step"}
{"type":"finish-step"}
{"type":"finish","finishReason":"tool_use"}`, `1 step_start
1 step_end
2 step_start
2 custom,"eventName":"aisdk.rest","data":{"type":"finish","finishReason":"tool_use"}
2 step_end,"finishReason":"other"
2 stream_end,"streamId":"s1"
`},
		"a tool of the server": {`{"type":"start-step"}
{"type":"tool-input-start","toolCallId":"c","toolName":"w","dynamic":true}
{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{}"}
{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{"a":1},"dynamic":true,"title":"Weather"}
{"type":"tool-output-available","toolCallId":"c","output":1,"preliminary":true}
{"type":"tool-output-available","toolCallId":"c","output":2,"providerMetadata":{"p":{"a":1}}}
{"type":"tool-input-available","toolCallId":"d","toolName":"w","input":[7]}
{"type":"tool-output-error","toolCallId":"d","errorText":"no"}
{"type":"tool-input-error","toolCallId":"e","toolName":"w","input":"x","errorText":"bad"}
{"type":"finish-step"}
{"type":"finish"}`, `1 step_start
1 tool_arg_stream_start,"toolCallId":"c","toolName":"w","providerExecuted":false
1 tool_arg_stream_delta,"toolCallId":"c","delta":"{}"
1 tool_arg_stream_end,"toolCallId":"c"
1 tool_start,"toolCallId":"c","toolName":"w","arguments":{"a":1},"part":{"title":"Weather"},"providerExecuted":false
1 custom,"eventName":"tool-output-preliminary","data":{"type":"tool-output-available","toolCallId":"c","output":1,"preliminary":true}
1 tool_end,"toolCallId":"c","toolName":"w","result":2,"providerExecuted":true,"part":{"providerMetadata":{"p":{"a":1}}}
1 tool_start,"toolCallId":"d","toolName":"w","arguments":{"value":[7]},"part":{"dynamic":false},"providerExecuted":false
1 tool_end,"toolCallId":"d","toolName":"w","result":null,"error":"no","providerExecuted":true
1 tool_input_error,"toolCallId":"e","toolName":"w","error":"bad","partialInput":"x","part":{"dynamic":false}
1 step_end
1 stream_end,"streamId":"s1"
`},
		"a tool of the browser": {`{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":null}
{"type":"finish","finishReason":"tool-calls"}`, `0 tool_start,"toolCallId":"c","toolName":"w","arguments":{},"part":{"dynamic":false},"providerExecuted":false
0 stream_paused,"reason":"tool-calls"
`},
		"a tool of the provider": {`{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{},"providerExecuted":true}
{"type":"finish"}`, `0 tool_start,"toolCallId":"c","toolName":"w","arguments":{},"part":{"dynamic":false},"providerExecuted":true
0 stream_end,"streamId":"s1"
`},
		"approvals": {`{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{"a":1}}
{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}
{"type":"tool-input-available","toolCallId":"d","toolName":"w","input":{}}
{"type":"tool-approval-request","approvalId":"b","toolCallId":"d","isAutomatic":true}
{"type":"tool-approval-response","approvalId":"b","approved":false,"reason":"policy"}
{"type":"tool-output-denied","toolCallId":"d"}
{"type":"finish"}`, `0 tool_start,"toolCallId":"c","toolName":"w","arguments":{"a":1},"part":{"dynamic":false},"providerExecuted":false
0 tool_approval_request,"toolCallId":"c","toolName":"w","approvalId":"a","input":{"a":1}
0 tool_start,"toolCallId":"d","toolName":"w","arguments":{},"part":{"dynamic":false},"providerExecuted":false
0 tool_approval_request,"toolCallId":"d","toolName":"w","approvalId":"b","input":{},"isAutomatic":true
0 tool_approval_response,"toolCallId":"d","toolName":"w","approvalId":"b","approved":false,"reason":"policy","isAutomatic":true
0 stream_paused,"reason":"tool-calls"
`},
		"a call that a rule has approved, without an outcome, and one that a rule has denied": {`{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{}}
{"type":"tool-approval-request","approvalId":"a","toolCallId":"c","isAutomatic":true}
{"type":"tool-approval-response","approvalId":"a","approved":true}
{"type":"tool-input-available","toolCallId":"d","toolName":"w","input":{}}
{"type":"tool-approval-request","approvalId":"b","toolCallId":"d","isAutomatic":true}
{"type":"tool-approval-response","approvalId":"b","approved":false,"reason":"policy"}
{"type":"finish"}`, `0 tool_start,"toolCallId":"c","toolName":"w","arguments":{},"part":{"dynamic":false},"providerExecuted":false
0 tool_approval_request,"toolCallId":"c","toolName":"w","approvalId":"a","input":{},"isAutomatic":true
0 tool_approval_response,"toolCallId":"c","toolName":"w","approvalId":"a","approved":true,"isAutomatic":true
0 tool_start,"toolCallId":"d","toolName":"w","arguments":{},"part":{"dynamic":false},"providerExecuted":false
0 tool_approval_request,"toolCallId":"d","toolName":"w","approvalId":"b","input":{},"isAutomatic":true
0 tool_approval_response,"toolCallId":"d","toolName":"w","approvalId":"b","approved":false,"reason":"policy","isAutomatic":true
0 stream_end,"streamId":"s1"
`},
		"the outcome of an approved call": {`{"type":"tool-output-available","toolCallId":"c","output":1}
{"type":"finish"}`, `0 tool_end,"toolCallId":"c","toolName":"unknown","result":1,"providerExecuted":true
0 stream_end,"streamId":"s1"
`},
		"sources, files, data": {`{"type":"source-url","sourceId":"s","url":"https://a.example","title":"A"}
{"type":"source-document","sourceId":"d","mediaType":"text/plain","title":"D","filename":"d.txt"}
{"type":"file","url":"data:,x","mediaType":"text/plain"}
{"type":"data-weather","id":"1","data":{"c":7},"transient":true}
{"type":"finish"}`, `0 source_url,"sourceId":"s","url":"https://a.example","title":"A"
0 source_document,"sourceId":"d","mediaType":"text/plain","title":"D","filename":"d.txt"
0 file,"url":"data:,x","mediaType":"text/plain"
0 custom,"eventName":"weather","data":{"c":7},"part":{"transient":true,"id":"1"}
0 stream_end,"streamId":"s1"
`},
		"unknown and malformed parts": {`{"type":"custom","kind":"a.b"}
{"type":"reset-step"}
{"type":"text-delta","id":"t"}
{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}
{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"x"}
{"type":"a\tb"}
{"type":"finish"}`, `0 custom,"eventName":"aisdk.custom","data":{"type":"custom","kind":"a.b"}
0 custom,"eventName":"aisdk.reset-step","data":{"type":"reset-step"}
0 custom,"eventName":"aisdk.text-delta","data":{"type":"text-delta","id":"t"}
0 custom,"eventName":"aisdk.tool-approval-request","data":{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}
0 custom,"eventName":"aisdk.tool-input-delta","data":{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"x"}
0 custom,"eventName":"aisdk.unknown","data":{"type":"a\tb"}
0 stream_end,"streamId":"s1"
`},
		"an error": {`{"type":"text-delta","id":"t","delta":"a"}
{"type":"error","errorText":"On strike."}
{"type":"finish-step"}
{"type":"finish","finishReason":"error"}`, `0 text_delta,"delta":"a"
0 error,"error":"On strike.","code":"agent_failed","recoverable":false
0 step_end,"finishReason":"error"
0 stream_failed,"error":"On strike.","errorDetail":{"message":"On strike.","code":"agent_failed"}
`},
		"a lost connection": {`{"type":"text-delta","id":"t","delta":"a"}`, `0 text_delta,"delta":"a"
0 stream_failed,"error":"the answer of the agent is incomplete","errorDetail":{"message":"the answer of the agent is incomplete","code":"connection_lost"}
`},
		"an abort": {`{"type":"abort","reason":"enough"}`, `0 run_interrupted,"runId":"r1","checkpointId":null,"reason":"enough"
0 stream_end,"streamId":"s1"
`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := translated(t, newTestTranslator(), c.parts); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// One Translator serves all responses of a run; another one continues the count of the steps.
func TestTranslatorOfALaterResponse(t *testing.T) {
	tr := newTestTranslator()
	translated(t, tr, `{"type":"start","messageId":"m7"}
{"type":"start-step"}
{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{}}
{"type":"finish"}`)
	const later = `{"type":"tool-output-available","toolCallId":"c","output":1}
{"type":"start-step"}
{"type":"finish"}`
	if got, want := translated(t, tr, later), `1 stream_active
1 tool_end,"toolCallId":"c","toolName":"w","result":1,"providerExecuted":true
2 step_start
2 stream_end,"streamId":"s1"
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	tr = newTestTranslator()
	translated(t, tr, `{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{}}`+"\n"+`{"type":"finish"}`)
	if got, want := translated(t, tr, `{"type":"finish"}`), "0 stream_active\n0 stream_end,\"streamId\":\"s1\"\n"; got != want { // the browser has run the tool
		t.Errorf("got\n%swant\n%s", got, want)
	}
	other := NewTranslator(codec.Run{Session: "s1", AgentType: "support", Step: 1})
	if got := translated(t, other, later); !strings.Contains(got, "2 step_start") {
		t.Errorf("got\n%s", got)
	}
}

// What is not a part is refused, and changes nothing.
func TestTranslatorRefuses(t *testing.T) {
	tr := newTestTranslator()
	for _, raw := range []string{``, `{`, `[]`, `"x"`, `{}`, `{"type":7}`, `{"type":""}`, `{"type":"finish"} {}`, strings.Repeat(`[`, 10_000)} {
		if list, err := tr.Translate([]byte(raw)); !errors.Is(err, chunk.ErrInvalid) || len(list) > 0 {
			t.Errorf("%.20q: %v, %v", raw, list, err)
		}
	}
	if end := tr.End(); len(end) != 1 || end[0].Type() != chunk.TypeStreamFailed {
		t.Errorf("end %v", end)
	}
}

// Any parts are translated to valid chunks, the same ones each time, and the response has one end.
func FuzzTranslator(f *testing.F) {
	for _, seed := range []string{
		`{"type":"start-step"}` + "\n" + `{"type":"tool-input-available","toolCallId":"c","toolName":"w","input":{}}` + "\n" + `{"type":"finish"}`,
		`{"type":"error","errorText":"\ud800"}`, `{"type":"data-","data":null}`, `{"type":"tool-input-start","toolCallId":"c","toolName":"\u0000"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, parts string) {
		run := func() (out [][]byte) {
			tr := newTestTranslator()
			var all []chunk.Chunk
			for line := range strings.Lines(parts) {
				list, err := tr.Translate([]byte(line))
				if err != nil && (!errors.Is(err, chunk.ErrInvalid) && !errors.Is(err, chunk.ErrTooLarge) || len(list) > 0) {
					t.Fatalf("%q: %v, %v", line, list, err)
				}
				if err == nil && !json.Valid([]byte(line)) {
					t.Fatalf("%q is accepted", line)
				}
				all = append(all, list...)
			}
			end := tr.End()
			if n := len(end); n == 0 || !slices.Contains([]chunk.Type{chunk.TypeStreamEnd, chunk.TypeStreamPaused, chunk.TypeStreamFailed}, end[n-1].Type()) {
				t.Fatalf("end %v", end)
			}
			for _, c := range append(all, end...) {
				line, err := c.AppendJSON(nil)
				if err != nil {
					t.Fatalf("%+v: %v", c, err)
				}
				out = append(out, line)
			}
			return out
		}
		if a, b := run(), run(); fmt.Sprintf("%s", a) != fmt.Sprintf("%s", b) {
			t.Errorf("%s differs from %s", a, b)
		}
	})
}
