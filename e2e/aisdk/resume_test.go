//go:build e2e

package aisdk

import (
	"cmp"
	"testing"
)

// The chunks of one answer, "Hello", of which a page has received "Hel".
const (
	startA1   = `{"type":"start","messageId":"A1"}`
	startB1   = `{"type":"start","messageId":"B1"}`
	startAny  = `{"type":"start"}`
	stepBegin = `{"type":"start-step"}`
	textBegin = `{"type":"text-start","id":"t7"}`
	textAgain = `{"type":"text-start","id":"t9"}`
	hel       = `{"type":"text-delta","id":"t7","delta":"Hel"}`
	lo        = `{"type":"text-delta","id":"t7","delta":"lo"}`
	loAgain   = `{"type":"text-delta","id":"t9","delta":"lo"}`
	textEnd   = `{"type":"text-end","id":"t7"}`
	endAgain  = `{"type":"text-end","id":"t9"}`
	stepEnd   = `{"type":"finish-step"}`
	finished  = `{"type":"finish","finishReason":"stop"}`
	callBegin = `{"type":"tool-input-start","toolCallId":"c1","toolName":"search","dynamic":true,"providerExecuted":true}`
	callReady = `{"type":"tool-input-available","toolCallId":"c1","toolName":"search","dynamic":true,"providerExecuted":true,"input":{}}`
	callDone  = `{"type":"tool-output-available","toolCallId":"c1","output":1}`

	userHi    = `{"id":"u1","role":"user","parts":[{"type":"text","text":"Hi"}]}`
	halfA1    = `{"id":"A1","role":"assistant","parts":[{"type":"step-start"},{"type":"text","text":"Hel","state":"streaming"}]}`
	callingA1 = `{"id":"A1","role":"assistant","parts":[{"type":"step-start"},{"type":"dynamic-tool","toolName":"search","toolCallId":"c1","state":"input-streaming","providerExecuted":true}]}`
	allowedA1 = `{"id":"A1","role":"assistant","parts":[{"type":"step-start"},{"type":"dynamic-tool","toolName":"search","toolCallId":"c1","state":"approval-responded","input":{},"approval":{"id":"a1","approved":true},"providerExecuted":true}]}`
	doneA0    = `{"id":"A0","role":"assistant","parts":[{"type":"step-start"},{"type":"text","text":"Ciao","state":"done"}]}`
	doneA1    = `{"id":"A1","role":"assistant","parts":[{"type":"step-start"},{"type":"text","text":"Hello","state":"done"}]}`
)

var (
	wholeA1   = sse(startA1, stepBegin, textBegin, hel, lo, textEnd, stepEnd, finished)
	wholeB1   = sse(startB1, stepBegin, textBegin, hel, lo, textEnd, stepEnd, finished)
	wholeTool = sse(startA1, stepBegin, callBegin, callReady, callDone, stepEnd, finished)
)

// The behavior of the pinned versions on a reconnect, on which the edge bases its
// responses: hook is under the hook of 6.x, which loses a flag of the transport,
// six under 6.x with a Chat object, seven under 7.x. "" is the same as the
// previous column.
func TestSDKResumes(t *testing.T) {
	fresh := []struct {
		name             string
		messages         []string
		body             []byte
		hook, six, seven string
	}{
		{"whole after the user", []string{userHi}, wholeA1, "u1 Hi / A1 Hello", "", ""},
		{"whole without id", []string{userHi}, sse(startAny, stepBegin, textBegin, hel, lo, textEnd, stepEnd, finished), "u1 Hi / ? Hello", "", ""},
		{"whole over a half", []string{userHi, halfA1}, wholeA1, "u1 Hi / A1 Hello", "", ""},
		{"another id over a half", []string{userHi, halfA1}, wholeB1, "u1 Hi / A1 Hel / B1 Hello", "", ""},
		{"a rest as a new part", []string{userHi, halfA1}, sse(startA1, textAgain, loAgain, endAgain, stepEnd, finished), "u1 Hi / A1 lo", "", ""},
		{"a rest under the old id", []string{userHi, halfA1}, sse(lo, textEnd, stepEnd, finished), "error: u1 Hi / A1 Hel", "", ""},
		{"whole over a call that streams", []string{userHi, callingA1}, wholeTool, "u1 Hi / A1 search(input-streaming) + search(output-available)", "u1 Hi / A1 search(output-available)", ""},
		{"an output with start over an allowed call", []string{userHi, allowedA1}, sse(startA1, callDone, finished), "error: u1 Hi / A1 ", "", ""},
		{"an output without start over an allowed call", []string{userHi, allowedA1}, sse(callDone, finished), "error: u1 Hi / A1 search(approval-responded)", "", "u1 Hi / A1 search(output-available)"},
		{"whole over an allowed call", []string{userHi, allowedA1}, wholeTool, "u1 Hi / A1 search(output-available)", "", ""},
		{"whole after another answer", []string{userHi, doneA0}, wholeA1, "u1 Hi / A0 Ciao / A1 Hello", "", ""},
		{"whole over itself", []string{userHi, doneA1}, wholeA1, "u1 Hi / A1 Hello", "", ""},
	}
	samePage := []struct {
		name             string
		body             []byte
		hook, six, seven string
	}{
		{"whole", wholeA1, "? Hi / A1 Hel + Hello", "? Hi / A1 Hello", ""},
		{"whole under another id", wholeB1, "? Hi / A1 Hel / B1 Hello", "", ""},
		{"the rest", sse(lo, textEnd, stepEnd, finished), "? Hi / A1 Hello", "", ""},
		{"the rest with start", sse(startA1, lo, textEnd, stepEnd, finished), "? Hi / A1 Hello", "error: ? Hi / A1 ", ""},
		{"the rest as a new part, with start", sse(startA1, textAgain, loAgain, endAgain, stepEnd, finished), "? Hi / A1 Hel + lo", "? Hi / A1 lo", ""},
		{"the rest as a new part", sse(textAgain, loAgain, endAgain, stepEnd, finished), "? Hi / A1 Hel + lo", "", ""},
	}
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for _, hook := range []bool{true, false} {
			want := func(underHook, six, seven string) string {
				six = cmp.Or(six, underHook)
				switch {
				case j.major == 7:
					return cmp.Or(seven, six)
				case hook:
					return underHook
				default:
					return six
				}
			}
			for _, c := range fresh {
				page := j.open(t, map[string]any{
					"messages": list(c.messages), "hook": hook && j.major == 6, "answers": []any{map[string]any{"body": c.body}},
				})
				if got, want := page.act(t, "resume").String(), want(c.hook, c.six, c.seven); got != want {
					t.Errorf("hook %v, fresh page, %s:\n got %s\nwant %s", hook, c.name, got, want)
				}
			}
			for _, c := range samePage {
				page := j.open(t, map[string]any{"hook": hook && j.major == 6, "answers": []any{
					map[string]any{"body": openEnded(startA1, stepBegin, textBegin, hel), "cut": true},
					map[string]any{"body": c.body},
				}})
				before := page.act(t, "send", map[string]any{"text": "Hi"})
				if before.String() != "error: ? Hi / A1 Hel" || len(before.Finishes) != 1 || !before.Finishes[0].IsDisconnect {
					t.Fatalf("%s: the cut gave %s, %+v", c.name, before, before.Finishes)
				}
				if got, want := page.act(t, "resume").String(), want(c.hook, c.six, c.seven); got != want {
					t.Errorf("hook %v, same page, %s:\n got %s\nwant %s", hook, c.name, got, want)
				}
			}
		}
	})
}

// If the continuation of an answered client tool has no step, the page posts
// indefinitely; with a step it posts once. The test client must detect such a
// loop.
func TestSDKLoopsWithoutSteps(t *testing.T) {
	asks := sse(startA1, stepBegin, `{"type":"tool-input-available","toolCallId":"c1","toolName":"where","dynamic":true,"input":{}}`, stepEnd, `{"type":"finish","finishReason":"tool-calls"}`)
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for _, c := range []struct {
			name  string
			rest  []byte
			posts int
		}{
			{"with a step", sse(startA1, stepBegin, textBegin, hel, lo, textEnd, stepEnd, finished), 2},
			{"without", sse(startA1, textBegin, hel, lo, textEnd, finished), 5},
		} {
			answers := []any{map[string]any{"body": asks}}
			for range 3 {
				answers = append(answers, map[string]any{"body": c.rest})
			}
			page := j.open(t, map[string]any{"auto": true, "answers": answers})
			page.act(t, "send", map[string]any{"text": "Hi"})
			got := page.act(t, "output", map[string]any{"tool": "where", "toolCallId": "c1", "output": "here"})
			if got.posts() != c.posts {
				t.Errorf("%s: %d POSTs, want %d: %s", c.name, got.posts(), c.posts, got)
			}
			if len(got.ToolCalls) != 1 {
				t.Errorf("%s: client tool calls of the page: %v", c.name, got.ToolCalls)
			}
		}
	})
}

// openEnded returns a body without an end mark.
func openEnded(chunks ...string) []byte {
	whole := sse(chunks...)
	return whole[:len(whole)-len("data: [DONE]\n\n")]
}

func list(messages []string) []any {
	var out []any
	for _, m := range messages {
		out = append(out, verbatim(m))
	}
	return out
}
