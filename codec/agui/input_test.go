package agui

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestParseRunInput checks what is read from what the client of AG-UI posts.
func TestParseRunInput(t *testing.T) {
	in, err := ParseRunInput([]byte(` {"threadId":"s1","runId":"r9","protocolVersion":"1.0","parentRunId":null,"unknown":[1],
		"state":{"a": 1},"context":[{"description":"d","value":"v"}],"forwardedProps":{"lastEventId":"17-mgj6k3gb","x":1},
		"tools":[{"name":"browser","description":"b","parameters":{"type":"object"}},{"name":"n","description":""}],
		"messages":[
			{"id":"u1","role":"user","content":"old"},
			{"id":"a1","role":"assistant","toolCalls":[{"id":"c0","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"id":"x0","role":"tool","toolCallId":"c0","content":"old"},
			{"id":"sys","role":"system","content":"s"},
			{"id":"u2","role":"user","content":"asked"},
			{"id":"a2","role":"assistant","content":"Let me see","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},
			{"id":"x1","role":"tool","toolCallId":"c1","content":"{\"n\": 1}"},
			{"id":"x2","role":"tool","toolCallId":"c2","content":"no","error":"no"},
			{"id":"u3","role":"user","content":[{"type":"text","text":"See "},{"type":"text","text":"this"},
				{"type":"image","source":{"type":"data","value":"AAAA","mimeType":"image/png"},"metadata":{"filename":"a.png"}},
				{"type":"document","source":{"type":"url","value":"https://f"}},
				{"type":"binary","mimeType":"audio/mp3","url":"https://b"}],"metadata":{"hidden":true}}],
		"resume":[{"interruptId":"i1","status":"resolved","payload":{"approved":true,"reason":"ok"}},{"interruptId":"i2","status":"cancelled","payload":null}]}`))
	if err != nil {
		t.Fatal(err)
	}
	no, id, file, metadata := "no", "u3", "a.png", chunk.Value(`{"hidden":true}`)
	want := RunInput{
		ThreadID: "s1", RunID: "r9", ProtocolVersion: "1.0", State: chunk.Value(`{"a": 1}`), ForwardedProps: chunk.Value(`{"lastEventId":"17-mgj6k3gb","x":1}`),
		Context: []Context{{"d", "v"}},
		Tools:   []Tool{{"browser", "b", chunk.Value(`{"type":"object"}`)}, {Name: "n"}},
		Messages: []chunk.InputMessage{{
			Content: "See this", ClientMessageID: &id, Metadata: &metadata,
			Files: []chunk.InputFile{
				{URL: "data:image/png;base64,AAAA", MediaType: "image/png", Filename: &file}, {URL: "https://f", MediaType: "application/octet-stream"},
				{URL: "https://b", MediaType: "audio/mp3"},
			},
		}},
		Results: []ToolResult{{CallID: "c1", Result: chunk.Value(`{"n": 1}`)}, {CallID: "c2", Error: &no}},
		Resume:  []Answer{{InterruptID: "i1", Payload: chunk.Value(`{"approved":true,"reason":"ok"}`)}, {InterruptID: "i2", Cancelled: true}},
	}
	want.Cursor, _ = chunk.ParseCursor("17-mgj6k3gb")
	if !reflect.DeepEqual(in, want) {
		t.Errorf("got  %+v\nwant %+v", in, want)
	}
}

// TestMinimalInput checks the smallest input, and the member that we propose.
func TestMinimalInput(t *testing.T) {
	in, err := ParseRunInput([]byte(`{"threadId":"t","runId":"r","messages":[],"lastEventId":"3"}`))
	if err != nil || in.Cursor != (chunk.Cursor{Seq: 3}) || in.Tools != nil || in.State != nil || in.Messages != nil {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestParseRunInputRefuses checks that errors name the member.
func TestParseRunInputRefuses(t *testing.T) {
	with := func(member string) string { return `{"threadId":"t","runId":"r","messages":[],` + member + `}` }
	message := func(m string) string { return `{"threadId":"t","runId":"r","messages":[` + m + `]}` }
	for in, field := range map[string]string{
		``: "", `[]`: "", `{"threadId":"t"`: "", `{"threadId":"t","threadId":"u","runId":"r","messages":[]}`: "",
		"{\"threadId\":\"\xff\",\"runId\":\"r\",\"messages\":[]}":                            "",
		`{"runId":"r","messages":[]}`:                                                        "threadId",
		`{"threadId":"","runId":"r","messages":[]}`:                                          "threadId",
		`{"threadId":"t\n","runId":"r","messages":[]}`:                                       "threadId",
		`{"threadId":"t","runId":1,"messages":[]}`:                                           "runId",
		`{"threadId":"t","runId":"r"}`:                                                       "messages",
		with(`"parentRunId":1`):                                                              "parentRunId",
		with(`"tools":{}`):                                                                   "tools",
		with(`"tools":[1]`):                                                                  "tools/0",
		with(`"tools":[{"description":"d"}]`):                                                "tools/0/name",
		with(`"context":[{"description":"d"}]`):                                              "context/0/value",
		with(`"resume":[{"interruptId":"i","status":"maybe"}]`):                              "resume/0/status",
		with(`"resume":[{"status":"resolved"}]`):                                             "resume/0/interruptId",
		with(`"lastEventId":"x"`):                                                            "lastEventId",
		with(`"forwardedProps":{"lastEventId":3}`):                                           "forwardedProps/lastEventId",
		with(`"state":` + strings.Repeat("[", 32) + strings.Repeat("]", 32)):                 "state",
		with(`"tools":[` + strings.Repeat(`{"name":"n"},`, MaxInputItems) + `{"name":"n"}]`): "tools",
		message(`1`):                                                 "messages/0",
		message(`{"id":"m","role":"wizard"}`):                        "messages/0/role",
		message(`{"id":"m","role":"user"}`):                          "messages/0/content",
		message(`{"id":"m","role":"user","content":[{"type":"x"}]}`): "messages/0/content/0/type",
		message(`{"id":"m\u0000","role":"user","content":"x"}`):      "messages/0/id",
		message(`{"id":"m","role":"user","content":[{"type":"image","source":{"type":"file","value":"f"}}]}`):              "messages/0/content/0/source/type",
		message(`{"id":"m","role":"user","content":[{"type":"image","source":{"type":"url","value":"javascript:x"}}]}`):    "messages/0/content/0",
		message(`{"id":"a","role":"assistant","content":"x"},{"id":"m","role":"tool","content":"x"}`):                      "messages/1/toolCallId",
		message(`{"id":"a","role":"assistant","content":"x"},{"id":"m","role":"tool","toolCallId":"c","content":{"a":1}}`): "messages/1/content",
	} {
		_, err := ParseRunInput([]byte(in))
		bad, ok := errors.AsType[*chunk.FieldError](err)
		if !ok || bad.Field != field || !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("%.80s: %v, want an error of %q", in, err, field)
		}
	}
}

// TestApproval checks what counts as a decision.
func TestApproval(t *testing.T) {
	for payload, want := range map[string]string{
		"": "true, true", "true": "true, true", "false": "false, true", `{"approved":true,"reason":"r"}`: "true, true r", `{"approved":false}`: "false, true",
		`{"approved":1}`: "false, false", `"yes"`: "false, false", "1": "false, false", "[]": "false, false",
	} {
		a := Answer{InterruptID: "i"}
		if payload != "" {
			a.Payload = chunk.Value(payload)
		}
		approved, reason, ok := a.Approval()
		if got := strings.TrimSpace(fmt.Sprintf("%v, %v %s", approved, ok, reason)); got != want {
			t.Errorf("%s: %s, want %s", payload, got, want)
		}
	}
	if approved, _, ok := (Answer{Cancelled: true}).Approval(); approved || !ok {
		t.Error("a cancelled answer approves")
	}
}

// TestAppendRunInput checks what an agent gets, and that it can be read again.
func TestAppendRunInput(t *testing.T) {
	yes := true
	f := fold.New(chunk.RootSession("acme", "s1"))
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "secret", Metadata: new(chunk.Value(`{"hidden":true}`))}, {Content: "Hi"}}},
		chunk.Thinking{Content: "hm", IsComplete: true},
		chunk.TextDelta{Delta: "Let me see"},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "f", Arguments: chunk.Value(`{"q":1}`)},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "f", Error: new("boom"), ProviderExecuted: &yes},
		chunk.File{URL: "https://f", MediaType: "image/png"},
		chunk.ToolStart{ToolCallID: "i1", ToolName: InterruptTool, Arguments: chunk.Value(`{}`)},
		chunk.ToolEnd{ToolCallID: "i1", ToolName: InterruptTool, Result: chunk.Value(`"Ada"`)},
	} {
		c := chunk.Chunk{AgentID: "s1", Step: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := chunk.Record{Seq: chunk.Seq(i + 1), Session: chunk.RootSession("acme", "s1"), Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data}
		if err := f.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	got := string(AppendRunInput(nil, RunRequest{
		ThreadID: "s1", RunID: "r2", ParentRunID: "p", History: f.Snapshot().Messages(0), Tools: []Tool{{Name: "browser", Parameters: chunk.Value(`{}`)}},
		Context: []Context{{"d", "v"}}, Resume: []Answer{{InterruptID: "i1", Payload: chunk.Value(`"Ada"`)}, {InterruptID: "i2", Cancelled: true}},
	}))
	const want = `{"threadId":"s1","runId":"r2","protocolVersion":"1.0","parentRunId":"p","state":{},"messages":[` +
		`{"id":"msg-0","role":"user","content":"secret","metadata":{"hidden":true}},{"id":"msg-1","role":"user","content":"Hi"},` +
		`{"id":"msg-2-2-0","role":"reasoning","content":"hm"},` +
		`{"id":"msg-2-2-1","role":"assistant","content":"Let me see","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}]},` +
		`{"id":"msg-2-result-c1","toolCallId":"c1","role":"tool","content":"boom","error":"boom"}],` +
		`"tools":[{"name":"browser","description":"","parameters":{}}],"context":[{"description":"d","value":"v"}],"forwardedProps":{},` +
		`"resume":[{"interruptId":"i1","status":"resolved","payload":"Ada"},{"interruptId":"i2","status":"cancelled"}]}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if in, err := ParseRunInput([]byte(got)); err != nil || len(in.Resume) != 2 || len(in.Results) != 1 || len(in.Messages) != 0 {
		t.Errorf("read again: %+v, %v", in, err)
	}
}

// FuzzParseRunInput checks that what is read fits into chunks, and that errors name a member.
func FuzzParseRunInput(f *testing.F) {
	f.Add([]byte(`{"threadId":"t","runId":"r","messages":[{"id":"m","role":"user","content":[{"type":"image","source":{"type":"data","value":"A"}}],"metadata":{"a":1}}]}`))
	f.Add([]byte(`{"threadId":"t","runId":"r","state":1,"tools":[{"name":"n"}],"resume":[{"interruptId":"i","status":"resolved","payload":1}],"messages":[{"role":"assistant"},{"role":"tool","toolCallId":"c","content":"{}"}],"lastEventId":"1"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, err := ParseRunInput(raw)
		if err != nil {
			if !errors.Is(err, chunk.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		bodies := []chunk.Body{chunk.RunStarted{RunID: "r", Mode: "execute", Input: in.Messages}}
		for _, r := range in.Results {
			bodies = append(bodies, chunk.ToolEnd{ToolCallID: r.CallID, Result: r.Result, Error: r.Error})
		}
		for _, a := range in.Resume {
			bodies = append(bodies, chunk.Custom{Data: a.Payload})
		}
		for _, b := range bodies {
			if err := (chunk.Chunk{AgentID: "s", Body: b}).Validate(); err != nil {
				t.Fatalf("%T: %v", b, err)
			}
		}
	})
}
