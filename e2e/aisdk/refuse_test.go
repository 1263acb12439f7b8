//go:build e2e

package aisdk

import (
	"slices"
	"strings"
	"testing"
)

// begun is the start of a valid body.
var begun = []string{
	`{"type":"start","messageId":"A1"}`, `{"type":"start-step"}`,
	`{"type":"tool-input-available","toolCallId":"c1","toolName":"t","input":{},"dynamic":true,"providerExecuted":true}`,
}

// fatal lists the errors that end a stream for the client. Only is the major
// version that reports it, 0 for both.
var fatal = []struct {
	name   string
	only   int
	chunks []string
	says   string
}{
	{"1: a type of the seed", 0, []string{`{"type":"approval-pending","approvalId":"a"}`}, "AI_TypeValidationError"},
	{"1: a type of a vendor", 0, []string{`{"type":"ping"}`}, "AI_TypeValidationError"},
	{"2: a response by chunk", 6, []string{
		`{"type":"tool-approval-request","approvalId":"a","toolCallId":"c1"}`,
		`{"type":"tool-approval-response","approvalId":"a","approved":true}`,
	}, "AI_TypeValidationError"},
	{"2: reset-step", 6, []string{`{"type":"reset-step"}`}, "AI_TypeValidationError"},
	{"2: custom", 6, []string{`{"type":"custom","kind":"a.b"}`}, "AI_TypeValidationError"},
	{"2: reasoning-file", 6, []string{`{"type":"reasoning-file","url":"u","mediaType":"m"}`}, "AI_TypeValidationError"},
	{"2: interrupted", 6, []string{`{"type":"finish","finishReason":"interrupted"}`}, "AI_TypeValidationError"},
	{"3: null for an optional field", 0, []string{`{"type":"finish","finishReason":null}`}, "AI_TypeValidationError"},
	{"3: a numeric id", 0, []string{`{"type":"text-start","id":1}`}, "AI_TypeValidationError"},
	{"3: flat metadata of a provider", 0, []string{`{"type":"text-start","id":"1","providerMetadata":{"a":"b"}}`}, "AI_TypeValidationError"},
	{"4: no input", 0, []string{`{"type":"tool-input-available","toolCallId":"c2","toolName":"t"}`}, "AI_TypeValidationError"},
	{"4: no output", 0, []string{`{"type":"tool-output-available","toolCallId":"c1"}`}, "AI_TypeValidationError"},
	{"4: no data", 0, []string{`{"type":"data-x"}`}, "AI_TypeValidationError"},
	{"4: a document without a title", 0, []string{`{"type":"source-document","sourceId":"s","mediaType":"m"}`}, "AI_TypeValidationError"},
	{"4: no input of a bad input", 0, []string{`{"type":"tool-input-error","toolCallId":"c2","toolName":"t","errorText":"e"}`}, "AI_TypeValidationError"},
	{"5: an unknown reason", 0, []string{`{"type":"finish","finishReason":"unknown"}`}, "AI_TypeValidationError"},
	{"5: a reason in another spelling", 0, []string{`{"type":"finish","finishReason":"tool_calls"}`}, "AI_TypeValidationError"},
	{"5: a reason of a vendor", 0, []string{`{"type":"finish","finishReason":"end_turn"}`}, "AI_TypeValidationError"},
	{"7: text that never began", 0, []string{`{"type":"text-delta","id":"1","delta":"x"}`}, `missing text part with ID "1"`},
	{"7: an end that never began", 0, []string{`{"type":"reasoning-end","id":"1"}`}, `missing reasoning part with ID "1"`},
	{"7: text after its end", 0, []string{
		`{"type":"text-start","id":"1"}`, `{"type":"text-end","id":"1"}`, `{"type":"text-delta","id":"1","delta":"x"}`,
	}, `missing text part with ID "1"`},
	{"7: text over the end of a step", 6, []string{
		`{"type":"text-start","id":"1"}`, `{"type":"finish-step"}`, `{"type":"text-delta","id":"1","delta":"x"}`,
	}, `missing text part with ID "1"`},
	{"8: a piece of an input that never began", 0, []string{`{"type":"tool-input-delta","toolCallId":"c2","inputTextDelta":"{"}`}, `missing tool call with ID "c2"`},
	{"9: an output of an unknown call", 0, []string{`{"type":"tool-output-available","toolCallId":"c2","output":1}`}, `tool call ID "c2"`},
	{"9: an error of an unknown call", 0, []string{`{"type":"tool-output-error","toolCallId":"c2","errorText":"e"}`}, `tool call ID "c2"`},
	{"9: a denial of an unknown call", 0, []string{`{"type":"tool-output-denied","toolCallId":"c2"}`}, `tool call ID "c2"`},
	{"9: a question about an unknown call", 0, []string{`{"type":"tool-approval-request","approvalId":"a","toolCallId":"c2"}`}, `tool call ID "c2"`},
	{"10: a heartbeat as data", 0, []string{`data: ping`}, "AI_JSONParseError"},
	{"10: a heartbeat as a named event", 0, []string{"event: ping\ndata: {}"}, "AI_TypeValidationError"},
	{"10: empty data", 0, []string{"data:"}, "AI_JSONParseError"},
	{"10: an end mark with a space", 0, []string{"data: [DONE] "}, "AI_JSONParseError"},
	{"11: a prototype", 0, []string{`{"type":"tool-output-available","toolCallId":"c1","output":{"a":[{"__proto__":1}]}}`}, "AI_JSONParseError"},
	{"11: a prototype of a constructor", 0, []string{`{"type":"data-x","data":{"constructor":{"prototype":{}}}}`}, "AI_JSONParseError"},
	{"12: an error", 0, []string{`{"type":"error","errorText":"it broke"}`}, "it broke"},
}

// The test client reports every error that breaks a real client, and accepts
// the others: otherwise the tests could not fail.
func TestSDKRejects(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		after := `{"type":"data-after","data":1}`
		for _, f := range fatal {
			v := j.fold(t, folding{body: sse(append(append(slices.Clone(begun), f.chunks...), after)...)})
			if f.only != 0 && f.only != j.major {
				if len(v.Errors) > 0 || v.Chunks[len(v.Chunks)-1] != "data-after" {
					t.Errorf("%s: rejected by %d: %v", f.name, j.major, v.Errors)
				}
				continue
			}
			if len(v.Errors) == 0 || !strings.Contains(v.Errors[0], f.says) {
				t.Errorf("%s: %v, want %q", f.name, v.Errors, f.says)
			}
			if strings.Contains(string(v.Message), "data-after") {
				t.Errorf("%s: later chunks are processed: %s", f.name, v.Message)
			}
		}
	})
}

// 13: responses without a body.
func TestSDKRejectsStatus(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for _, c := range []struct {
			name   string
			do     string
			answer map[string]any
			status string
		}{
			{"nothing to resume is 204", "resume", map[string]any{"status": 204}, "ready"},
			{"404 is an error", "resume", map[string]any{"status": 404, "body": []byte("no such chat")}, "error"},
			{"a POST needs a body", "send", map[string]any{"status": 204}, "error"},
			{"an empty body is valid", "send", map[string]any{"status": 200}, "ready"},
			{"409 is an error", "send", map[string]any{"status": 409, "body": []byte("busy")}, "error"},
		} {
			chat := j.open(t, map[string]any{"answers": []any{c.answer}})
			if got := chat.act(t, c.do, map[string]any{"text": "Hi"}); got.Status != c.status {
				t.Errorf("%s: status %s (%s), want %s", c.name, got.Status, got.Error, c.status)
			}
		}
	})
}

// Variants of the framing: the client ignores comments and ids, and the end mark
// ends nothing.
func TestSDKReadsFrames(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		want := []byte(`{"id":"A1","role":"assistant","parts":[{"type":"data-x","data":"a\n\ndata: [DONE]\u2028"}]}`)
		start, data := `{"type":"start","messageId":"A1"}`, `{"type":"data-x","data":"a\n\ndata: [DONE]\u2028"}`
		for name, body := range map[string]string{
			"plain":            "data: " + start + "\n\ndata: " + data + "\n\n",
			"comments":         ": stream-open\n\ndata: " + start + "\n\n: keep-alive\n\ndata: " + data + "\n\n",
			"ids":              "data: " + start + "\n\nid: 42\ndata: " + data + "\n\n",
			"retry":            "retry: 100\n\nid: 1\n\ndata: " + start + "\n\ndata: " + data + "\n\n",
			"CRLF":             "data: " + start + "\r\n\r\ndata: " + data + "\r\n\r\n",
			"chunk after DONE": "data: " + start + "\n\ndata: [DONE]\n\ndata: " + data + "\n\n",
			"half an event":    "data: " + start + "\n\ndata: " + data + "\n\ndata: " + data + "\n",
		} {
			if v := j.fold(t, folding{body: []byte(body), want: want}); v.Difference != "" || len(v.Errors) > 0 {
				t.Errorf("%s: %s %v", name, v.Difference, v.Errors)
			}
		}
	})
}
