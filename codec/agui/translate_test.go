package agui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/projector/fold"
)

// translated returns the lines that a Translator makes of the events of responses; an empty line ends a response.
func translated(t *testing.T, events string) string {
	t.Helper()
	tr := NewTranslator(codec.Run{Session: "s1"})
	var b strings.Builder
	write := func(chunks []chunk.Chunk) {
		for _, c := range chunks {
			text, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatalf("%T: %v", c.Body, err)
			}
			line := strings.NewReplacer(`"agentId":"s1","agentType":"agent","timestamp":0,`, "").Replace(string(text))
			b.WriteString(line + "\n")
		}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(events), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			write(tr.End())
			continue
		}
		chunks, err := tr.Translate([]byte(line))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		write(chunks)
	}
	write(tr.End())
	return b.String()
}

// TestTranslate checks the chunks of each event.
func TestTranslate(t *testing.T) {
	for _, c := range []struct{ name, events, want string }{
		{"text", `{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[]}}
{"type":"STEP_STARTED","stepName":"plan"}
{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"STEP_FINISHED","stepName":"plan","metadata":{"finishReason":"stop","usage":{"inputTokens":1,"outputTokens":2}}}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":{"ok":true},"usage":[{"inputTokens":1,"outputTokens":2}]}`,
			`{"type":"step_start","step":1,"stepId":"plan"}
{"type":"text_delta","step":1,"delta":"Hello"}
{"type":"step_end","step":1,"stepId":"plan","usage":{"inputTokens":1,"outputTokens":2},"finishReason":"stop"}
{"type":"stream_end","step":1,"streamId":"s1","finalOutput":{"ok":true}}
`},
		{"messages are steps", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"one"}
{"type":"TEXT_MESSAGE_CHUNK","delta":" more"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"two"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"inputTokens":1}]}`,
			`{"type":"step_start","step":1}
{"type":"text_delta","step":1,"delta":"one"}
{"type":"text_delta","step":1,"delta":" more"}
{"type":"step_end","step":1}
{"type":"step_start","step":2}
{"type":"text_delta","step":2,"delta":"two"}
{"type":"step_end","step":2}
{"type":"step_end","step":2,"usage":{"inputTokens":1,"outputTokens":0}}
{"type":"stream_end","step":2,"streamId":"s1"}
`},
		{"the models of a run", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"one"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"provider":"openai","model":"gpt-4o","inputTokens":100,"outputTokens":50,"totalTokens":150,"reasoningTokens":20,"cachedInputTokens":10},{"provider":7,"model":"a\nb","inputTokens":"lots","reasoningTokens":1e999}]}`,
			`{"type":"step_start","step":1}
{"type":"text_delta","step":1,"delta":"one"}
{"type":"custom","step":1,"eventName":"agui.rest","data":{"type":"RUN_FINISHED","usage":[{"provider":"openai","model":"gpt-4o","inputTokens":100,"outputTokens":50,"totalTokens":150,"reasoningTokens":20,"cachedInputTokens":10},{"provider":7,"model":"a\nb","inputTokens":"lots","reasoningTokens":1e999}]}}
{"type":"step_end","step":1}
{"type":"step_end","step":1,"usage":{"inputTokens":100,"outputTokens":50,"cachedTokens":10,"reasoningTokens":20},"model":"gpt-4o","provider":"openai"}
{"type":"step_end","step":1,"usage":{"inputTokens":0,"outputTokens":0}}
{"type":"stream_end","step":1,"streamId":"s1"}
`},
		{"the model of a run that fails", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"RUN_ERROR","message":"no","usage":[{"model":"gpt-4o","inputTokens":1}]}`,
			`{"type":"custom","step":0,"eventName":"agui.rest","data":{"type":"RUN_ERROR","usage":[{"model":"gpt-4o","inputTokens":1}]}}
{"type":"step_end","step":0,"usage":{"inputTokens":1,"outputTokens":0},"model":"gpt-4o"}
{"type":"stream_failed","step":0,"error":"no","errorDetail":{"message":"no"}}
`},
		{"reasoning", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"REASONING_START","messageId":"m"}
{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}
{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"hm"}
{"type":"REASONING_MESSAGE_END","messageId":"m"}
{"type":"REASONING_END","messageId":"m"}
{"type":"THINKING_START"}
{"type":"THINKING_TEXT_MESSAGE_START"}
{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"well"}
{"type":"THINKING_TEXT_MESSAGE_END"}
{"type":"THINKING_END"}
{"type":"REASONING_MESSAGE_CHUNK","messageId":"n","delta":"so"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			`{"type":"step_start","step":1}
{"type":"thinking","step":1,"content":"hm","isComplete":false}
{"type":"thinking","step":1,"content":"","isComplete":true}
{"type":"thinking","step":1,"content":"well","isComplete":false}
{"type":"thinking","step":1,"content":"","isComplete":true}
{"type":"thinking","step":1,"content":"so","isComplete":false}
{"type":"thinking","step":1,"content":"","isComplete":true}
{"type":"step_end","step":1}
{"type":"stream_end","step":1,"streamId":"s1"}
`},
		{"tools", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"search","parentMessageId":"m"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"q\""}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":":1}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c1","content":"{\"n\":2}"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"c2","toolCallName":"search"}
{"type":"TOOL_CALL_CHUNK","delta":"oops"}
{"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c2","content":"no","metadata":{"error":"no","errorCode":"e"}}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			`{"type":"step_start","step":1}
{"type":"tool_arg_stream_start","step":1,"toolCallId":"c1","toolName":"search"}
{"type":"tool_arg_stream_delta","step":1,"toolCallId":"c1","delta":"{\"q\""}
{"type":"tool_arg_stream_delta","step":1,"toolCallId":"c1","delta":":1}"}
{"type":"tool_arg_stream_end","step":1,"toolCallId":"c1"}
{"type":"tool_start","step":1,"toolCallId":"c1","toolName":"search","arguments":{"q":1}}
{"type":"tool_end","step":1,"toolCallId":"c1","toolName":"search","result":{"n":2},"providerExecuted":true}
{"type":"tool_arg_stream_start","step":1,"toolCallId":"c2","toolName":"search"}
{"type":"tool_arg_stream_delta","step":1,"toolCallId":"c2","delta":"oops"}
{"type":"tool_arg_stream_end","step":1,"toolCallId":"c2"}
{"type":"tool_start","step":1,"toolCallId":"c2","toolName":"search","arguments":{"value":"oops"}}
{"type":"tool_end","step":1,"toolCallId":"c2","toolName":"search","result":null,"error":"no","errorCode":"e","providerExecuted":true}
{"type":"step_end","step":1}
{"type":"stream_end","step":1,"streamId":"s1"}
`},
		{"a front-end tool pauses the run", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"browser"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success","pendingToolCallIds":["c1"]}}

{"type":"RUN_STARTED","threadId":"t","runId":"r2"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"done"}
{"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c1","content":"late"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r2"}`,
			`{"type":"step_start","step":1}
{"type":"tool_arg_stream_start","step":1,"toolCallId":"c1","toolName":"browser"}
{"type":"tool_arg_stream_end","step":1,"toolCallId":"c1"}
{"type":"tool_start","step":1,"toolCallId":"c1","toolName":"browser","arguments":{}}
{"type":"step_end","step":1}
{"type":"stream_paused","step":1,"reason":"client_tool"}
{"type":"stream_active","step":1}
{"type":"step_start","step":2}
{"type":"text_delta","step":2,"delta":"done"}
{"type":"tool_end","step":2,"toolCallId":"c1","toolName":"browser","result":"late","providerExecuted":true}
{"type":"step_end","step":2}
{"type":"stream_end","step":2,"streamId":"s1"}
`},
		{"interrupts", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"delete"}
{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"a\":1}"}
{"type":"TOOL_CALL_END","toolCallId":"c1"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"tool_call","toolCallId":"c1"},{"id":"i2","reason":"input","message":"Name?"}]}}`,
			`{"type":"step_start","step":1}
{"type":"tool_arg_stream_start","step":1,"toolCallId":"c1","toolName":"delete"}
{"type":"tool_arg_stream_delta","step":1,"toolCallId":"c1","delta":"{\"a\":1}"}
{"type":"tool_arg_stream_end","step":1,"toolCallId":"c1"}
{"type":"tool_start","step":1,"toolCallId":"c1","toolName":"delete","arguments":{"a":1}}
{"type":"custom","step":1,"eventName":"agui.rest","data":{"type":"RUN_FINISHED","outcome":{"interrupts":[{"message":"Name?"}]}}}
{"type":"step_end","step":1}
{"type":"tool_approval_request","step":1,"toolCallId":"c1","toolName":"delete","approvalId":"i1","input":{"a":1}}
{"type":"tool_start","step":1,"toolCallId":"i2","toolName":"agui.interrupt","arguments":{"id":"i2","reason":"input","message":"Name?"}}
{"type":"stream_paused","step":1,"reason":"input"}
`},
		{"state", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/b","value":null},{"op":"move","from":"/a","path":"/c"}]}
{"type":"STATE_SNAPSHOT","snapshot":3}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"b","value":1}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			`{"type":"state_patch","step":0,"patches":[{"op":"replace","path":"","value":{"a":1}}]}
{"type":"state_patch","step":0,"patches":[{"op":"add","path":"/b","value":null},{"op":"move","path":"/c","from":"/a"}]}
{"type":"custom","step":0,"eventName":"agui.STATE_SNAPSHOT","data":{"type":"STATE_SNAPSHOT","snapshot":3}}
{"type":"custom","step":0,"eventName":"agui.STATE_DELTA","data":{"type":"STATE_DELTA","delta":[{"op":"add","path":"b","value":1}]}}
{"type":"stream_end","step":0,"streamId":"s1"}
`},
		{"a snapshot of the messages has only what is new", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hello"}
{"type":"TEXT_MESSAGE_END","messageId":"m"}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":"old"},{"id":"u","role":"user","content":"Hi"},{"id":"other","role":"assistant","content":"Hello"},{"id":"n","role":"assistant","content":"New","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"id":"x","role":"tool","toolCallId":"c","content":"1"}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			`{"type":"step_start","step":1}
{"type":"text_delta","step":1,"delta":"Hello"}
{"type":"step_end","step":1}
{"type":"step_start","step":2}
{"type":"text_delta","step":2,"delta":"New"}
{"type":"tool_start","step":2,"toolCallId":"c","toolName":"f","arguments":{}}
{"type":"tool_end","step":2,"toolCallId":"c","toolName":"f","result":"1","providerExecuted":true}
{"type":"step_end","step":2}
{"type":"stream_end","step":2,"streamId":"s1"}
`},
		{"others", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"CUSTOM","name":"progress","value":[1]}
{"type":"RAW","event":{"a":1},"rawEvent":{"prompt":"secret"}}
{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"plan","content":{"a":1}}
{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"plan","patch":[]}
{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"file","content":{"url":"https://f","mediaType":"text/plain"}}
{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"file","content":{"url":"javascript:x","mediaType":"text/plain"}}
{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"v","delta":"x","subagentRunId":"k9"}
{"type":"NEW_EVENT"}
{"type":"RUN_ERROR","message":"out of memory","code":"oom"}`,
			`{"type":"custom","step":0,"eventName":"progress","data":[1]}
{"type":"custom","step":0,"eventName":"agui.RAW","data":{"type":"RAW","event":{"a":1}}}
{"type":"custom","step":0,"eventName":"agui.ACTIVITY_SNAPSHOT","data":{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"plan","content":{"a":1}}}
{"type":"custom","step":0,"eventName":"agui.ACTIVITY_DELTA","data":{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"plan","patch":[]}}
{"type":"step_start","step":1}
{"type":"file","step":1,"url":"https://f","mediaType":"text/plain"}
{"type":"custom","step":1,"eventName":"agui.ACTIVITY_SNAPSHOT","data":{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"file","content":{"url":"javascript:x","mediaType":"text/plain"}}}
{"type":"custom","step":1,"eventName":"agui.TEXT_MESSAGE_START","data":{"type":"TEXT_MESSAGE_START","messageId":"u","role":"user"}}
{"type":"custom","step":1,"eventName":"agui.TEXT_MESSAGE_CONTENT","data":{"type":"TEXT_MESSAGE_CONTENT","messageId":"v","delta":"x","subagentRunId":"k9"}}
{"type":"custom","step":1,"eventName":"agui.NEW_EVENT","data":{"type":"NEW_EVENT"}}
{"type":"step_end","step":1}
{"type":"stream_failed","step":1,"error":"out of memory","errorDetail":{"message":"out of memory","code":"oom"}}
`},
		{"cancelled", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`,
			`{"type":"stream_failed","step":0,"error":"cancelled","errorDetail":{"message":"cancelled","code":"aborted"}}
`},
		{"broken off", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hel"}`,
			`{"type":"step_start","step":1}
{"type":"text_delta","step":1,"delta":"Hel"}
{"type":"step_end","step":1}
{"type":"stream_failed","step":1,"error":"the stream of the agent broke off","errorDetail":{"message":"the stream of the agent broke off"}}
`},
		{"sub-agents", `{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"SUBAGENT_STARTED","subagentRunId":"k1","name":"x","parentToolCallId":"c1"}
{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hi","subagentRunId":"k1"}
{"type":"SUBAGENT_FINISHED","subagentRunId":"k1","result":{"a":1}}
{"type":"SUBAGENT_STARTED","subagentRunId":"ns 1","name":"y"}
{"type":"SUBAGENT_ERROR","subagentRunId":"ns 1","message":"no"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
			`{"type":"subagent_start","step":0,"subAgentType":"x","subSessionId":"k1","callId":"c1"}
{"type":"step_start","agentId":"k1","agentType":"x","timestamp":0,"step":1}
{"type":"text_delta","agentId":"k1","agentType":"x","timestamp":0,"step":1,"delta":"Hi"}
{"type":"step_end","agentId":"k1","agentType":"x","timestamp":0,"step":1}
{"type":"stream_end","agentId":"k1","agentType":"x","timestamp":0,"step":1,"streamId":"k1"}
{"type":"subagent_end","step":0,"subAgentType":"x","subSessionId":"k1","callId":"c1","result":{"a":1}}
{"type":"subagent_start","step":0,"subAgentType":"y","subSessionId":"agui-1ffbb5d3c7331a875df672fa20a14220","callId":""}
{"type":"stream_failed","agentId":"agui-1ffbb5d3c7331a875df672fa20a14220","agentType":"y","timestamp":0,"step":0,"error":"no","errorDetail":{"message":"no"}}
{"type":"subagent_end","step":0,"subAgentType":"y","subSessionId":"agui-1ffbb5d3c7331a875df672fa20a14220","callId":"","result":{"error":"no"}}
{"type":"stream_end","step":0,"streamId":"s1"}
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := translated(t, c.events); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestTranslateRefuses checks that a line that is not an event is an error and changes nothing.
func TestTranslateRefuses(t *testing.T) {
	tr := NewTranslator(codec.Run{Session: "s1"})
	for _, line := range []string{"", "[]", "{", `{"a":1}`, `{"type":3}`, `{"type":""}`, strings.Repeat("[", 40), "{\"type\":\"\xff\"}"} {
		if out, err := tr.Translate([]byte(line)); err == nil || len(out) > 0 {
			t.Errorf("%q: %v, %v", line, out, err)
		}
	}
}

// events returns the events of a log: of each turn, in the responses in which a client gets them.
func events(tb rapid.TB, log turntest.Log, opt Options) [][]byte {
	tb.Helper()
	var out [][]byte
	for _, at := range turns(tb, log) {
		w := New(at.id, opt)
		for _, rec := range log[at.first:at.last] {
			for line := range bytes.Lines(w.Append(nil, rec)) {
				if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
					out = append(out, bytes.TrimSpace(data))
				}
			}
		}
	}
	return out
}

// content has the texts, the calls and the state of a session.
func content(tb rapid.TB, f *fold.Folder) string {
	tb.Helper()
	s := f.Snapshot()
	var b strings.Builder
	text, thought := "", ""
	for _, m := range s.AllMessages() {
		for _, p := range m.Parts {
			switch {
			case m.Role != fold.Assistant:
			case p.Kind == fold.PartText:
				text = chunk.Concat(text, p.Text)
			case p.Kind == fold.PartReasoning:
				thought = chunk.Concat(thought, p.Text)
			case p.Call != nil && p.Call.Name != InterruptTool:
				c := p.Call
				output := string(c.Output)
				if c.Output != nil && rawjson.Kind(c.Output) != '{' && rawjson.Kind(c.Output) != '[' {
					output = strings.Trim(output, `"`) // the protocol has texts
				}
				input := string(c.Input)
				if c.Input.IsNull() {
					input = "{}"
				} else if rawjson.Kind(c.Input) != '{' {
					input = `{"value":` + input + "}"
				}
				fmt.Fprintf(&b, "%s %s %s %s %s\n", c.ID, c.Name, input, output, c.Error)
			}
		}
	}
	return fmt.Sprintf("text %q\nreasoning %q\nstate %s\n%s", text, thought, s.State, b.String())
}

// TestRoundTrip checks that the translation of what is written from a log keeps texts, calls and state.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, Plain: true}).Draw(t, "log")
		tr := NewTranslator(codec.Run{Session: turntest.Session.ID})
		f := fold.New(turntest.Session)
		n := chunk.Ordinal(0)
		add := func(c chunk.Chunk) {
			n++
			data, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			rec := chunk.Record{Seq: chunk.Seq(n), Session: turntest.Session, Epoch: 1, Ordinal: n, Type: c.Type(), Data: data}
			if err := f.Apply(rec); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
		}
		add(chunk.Chunk{AgentID: "s1", Body: chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hello"}}}})
		var texts [][]byte
		for _, e := range events(t, log, Options{}) {
			texts = append(texts, e)
			chunks, err := tr.Translate(e)
			if err != nil {
				t.Fatalf("%v: %s", err, e)
			}
			for _, c := range chunks {
				add(c)
			}
		}
		for _, c := range tr.End() {
			add(c)
		}
		want := fold.New(turntest.Session)
		for _, rec := range log {
			if err := want.Apply(rec); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := content(t, f), content(t, want); got != want {
			t.Fatalf("got\n%s\nwant\n%s\nof\n%s\nfrom\n%s", got, want, bytes.Join(texts, []byte("\n")), log)
		}
	})
}

// TestTranslatesAllThatIsWritten checks that a Translator understands all that a Writer writes, also of sub-agents: the only events that it keeps as they are have
// structured data, or the rest of an event, and its chunks are those of sessions that fold without a fault.
func TestTranslatesAllThatIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := turntest.Logs(turntest.Config{Turns: 1, SubAgents: true, Plain: true}).Draw(t, "log")
		tr := NewTranslator(codec.Run{Session: turntest.Session.ID})
		folders := map[string]*fold.Folder{}
		ordinals := map[string]chunk.Ordinal{}
		add := func(c chunk.Chunk) {
			if b, ok := chunk.As[chunk.Custom](c); ok && strings.HasPrefix(b.EventName, Prefix) && b.EventName != Prefix+dialect.RestEvent {
				if kind, _ := dialect.Read(b.Data).Text("activityType"); kind != ActivityStructured {
					t.Fatalf("not understood: %s\nof\n%s", b.Data, log)
				}
			}
			s := turntest.Session
			if c.AgentID != s.ID {
				s = s.Child(c.AgentID)
			}
			if folders[c.AgentID] == nil {
				folders[c.AgentID] = fold.New(s)
			}
			ordinals[c.AgentID]++
			data, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			n := ordinals[c.AgentID]
			if err := folders[c.AgentID].Apply(chunk.Record{Seq: chunk.Seq(n), Session: s, Epoch: 1, Ordinal: n, Type: c.Type(), Data: data}); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
		}
		for _, e := range events(t, log, Options{SubAgents: true}) {
			chunks, err := tr.Translate(e)
			if err != nil {
				t.Fatalf("%v: %s", err, e)
			}
			if bytes.Contains(e, []byte(`"outcome":{"type":"interrupt"`)) || bytes.Contains(e, []byte(`"pendingToolCallIds"`)) {
				chunks = append(chunks, tr.End()...)
			}
			for _, c := range chunks {
				add(c)
			}
		}
		for _, c := range tr.End() {
			add(c)
		}
		for id, f := range folders {
			if s := f.Snapshot(); s.Status == fold.Active || s.Faults.Skipped > 0 {
				t.Fatalf("%s is %s, %+v\nof\n%s", id, s.Status, s.Faults, log)
			}
		}
	})
}

// FuzzTranslate checks for any lines that Translate and End return valid chunks, that a sub-agent starts before its first chunk and ends once, that the run ends
// or waits at the end of a response, and that the same lines give the same chunks.
func FuzzTranslate(f *testing.F) {
	f.Add([]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"SUBAGENT_STARTED","subagentRunId":"k","name":"x"}
{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"n","delta":"{}","subagentRunId":"k"}
{"type":"SUBAGENT_FINISHED","subagentRunId":"k","outcome":{"type":"suspended"}}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x","toolCallId":"c","subagentRunId":"k"}]}}

{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":"x","toolCalls":[{"id":"c","function":{"name":"f","arguments":"1"}}]}]}
{"type":"RUN_ERROR","message":"m"}`))
	for typ := range required {
		f.Add([]byte(`{"type":"` + typ + `","messageId":"m","delta":"d","toolCallId":"c","toolCallName":"n","role":"assistant","subagentRunId":"k","name":"x","value":1}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first []byte
		for range 2 {
			tr := NewTranslator(codec.Run{Session: "s1"})
			open := map[string]bool{"s1": true}
			var all []byte
			take := func(chunks []chunk.Chunk) {
				for _, c := range chunks {
					line, err := c.AppendJSON(nil)
					if err != nil {
						t.Fatalf("%T: %v", c.Body, err)
					}
					all = append(append(all, line...), '\n')
					if !open[c.AgentID] {
						t.Fatalf("%s has not begun, or has ended: %s", c.AgentID, line)
					}
					switch b := c.Body.(type) {
					case chunk.SubagentStart:
						open[b.SubSessionID] = true
					case chunk.SubagentEnd:
						delete(open, b.SubSessionID)
					}
				}
			}
			for line := range bytes.Lines(text) {
				if len(bytes.TrimSpace(line)) == 0 {
					take(tr.End())
					continue
				}
				if chunks, err := tr.Translate(line); err == nil {
					take(chunks)
				}
			}
			take(tr.End())
			if again := tr.End(); len(again) > 0 {
				t.Fatalf("the end has an end: %v", again)
			}
			if first == nil {
				first = all
			} else if !bytes.Equal(first, all) {
				t.Fatalf("once %s\nthen %s", first, all)
			}
		}
	})
}
