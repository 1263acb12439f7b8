package aisdk

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// A history has the parts that a client of the server would have, and every call of it an outcome, unless the server is to decide about the call now.
func TestRequestMessages(t *testing.T) {
	call := func(state fold.CallState, approved *bool) fold.Part {
		c := &fold.ToolCall{ID: "c", Name: "w", State: state, Input: chunk.Value(`{"a":1}`), ProviderExecuted: true}
		switch state {
		case fold.CallDone:
			c.Output = chunk.Value(`7`)
		case fold.CallFailed:
			c.Error = "no"
		case fold.CallStreaming:
			c.Input = nil
		}
		if approved != nil || state == fold.CallAwaitingApproval {
			c.Approval = &fold.Approval{ID: "x", Approved: approved}
		}
		return fold.Part{Kind: fold.PartCall, Call: c}
	}
	provided, delegated, open := call(fold.CallOpen, nil), call(fold.CallOpen, nil), call(fold.CallOpen, nil)
	delegated.Call.Name, open.Call.ProviderExecuted = "subagent__w", false
	text := func(s string) fold.Part { return fold.Part{Kind: fold.PartText, Text: s, Streaming: true} }
	user := func(index int, s string) fold.Message {
		return fold.Message{Index: index, Shown: index, Role: fold.User, ClientID: "m" + s, Parts: []fold.Part{text(s)}}
	}
	step := func(index, shown int, parts ...fold.Part) fold.Message {
		return fold.Message{Index: index, Shown: shown, Role: fold.Assistant, Parts: parts}
	}
	const head, answer = `{"id":"ma","role":"user","parts":[{"type":"text","text":"a","state":"done"}]}` + "\n", `{"id":"msg-1","role":"assistant","parts":[{"type":"step-start"},`
	const next = `]}` + "\n" + `{"id":"mb","role":"user","parts":[{"type":"text","text":"b","state":"done"}]}`
	part := func(rest string) string { return `{"type":"tool-w","toolCallId":"c","state":` + rest + `}` }
	for name, c := range map[string]struct {
		list []fold.Message
		want string
	}{
		"two steps": {
			[]fold.Message{user(0, "a"), step(1, 1, text("x"), call(fold.CallDone, nil)), step(2, 1, text("y"))},
			head + answer + `{"type":"text","text":"x","state":"done"},` + part(`"output-available","input":{"a":1},"output":7`) + `,{"type":"step-start"},{"type":"text","text":"y","state":"done"}]}`,
		},
		"replaced and empty messages": {
			[]fold.Message{user(0, "a"), {Index: 1, Shown: 1, Role: fold.Assistant, Replaced: true, Parts: []fold.Part{text("x")}}, step(2, 2)},
			strings.TrimSpace(head),
		},
		"approved, to be run now":   {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallApproved, new(true)))}, head + answer + part(`"approval-responded","input":{"a":1},"approval":{"id":"x","approved":true}`) + `]}`},
		"denied just now":           {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallDenied, new(false)))}, head + answer + part(`"approval-responded","input":{"a":1},"approval":{"id":"x","approved":false}`) + `]}`},
		"denied before":             {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallDenied, new(false))), user(2, "b")}, head + answer + part(`"output-denied","input":{"a":1},"approval":{"id":"x","approved":false}`) + next},
		"approved, and left behind": {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallApproved, new(true))), user(2, "b")}, head + answer + part(`"output-error","input":{"a":1},"errorText":"the tool was not run","approval":{"id":"x","approved":true}`) + next},
		"not decided":               {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallAwaitingApproval, nil)), user(2, "b")}, head + answer + part(`"output-error","input":{"a":1},"errorText":"the tool was not run"`) + next},
		"the decision has expired":  {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallFailed, new(false)))}, head + answer + part(`"output-error","input":{"a":1},"errorText":"no"`) + `]}`},
		"the arguments are cut":     {[]fold.Message{user(0, "a"), step(1, 1, call(fold.CallStreaming, nil)), user(2, "b")}, head + answer + part(`"output-error","input":{},"errorText":"the tool was not run"`) + next},
		"a call without an outcome": {[]fold.Message{user(0, "a"), step(1, 1, open), user(2, "b")}, head + answer + part(`"output-error","input":{"a":1},"errorText":"the tool was not run"`) + next},
		"a call that a provider has run": {
			[]fold.Message{user(0, "a"), step(1, 1, provided, delegated), user(2, "b")},
			head + answer + part(`"input-available","input":{"a":1},"providerExecuted":true`) + `,{"type":"tool-subagent__w","toolCallId":"c","state":"output-error","input":{"a":1},"errorText":"the tool was not run"}` + next,
		},
		"a part of the server stream": {[]fold.Message{user(0, "a"), step(1, 1, fold.Part{Kind: fold.PartData, Data: &fold.Data{Name: "aisdk.custom"}})}, head + answer[:len(answer)-1] + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range RequestMessages(c.list) {
				got = append(got, string(m.AppendJSON(nil)))
			}
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("got\n%s\nwant\n%s", text, c.want)
			}
		})
	}
}
