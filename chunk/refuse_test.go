package chunk_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

const base = `"agentId":"a","agentType":"t","timestamp":1,"step":1`

// refusals has invalid input, with the member that the error names. The ids are those of the catalogue of bad inputs.
var refusals = []struct {
	name  string
	input string
	typ   chunk.Type
	field string
	text  string // part of the error
}{
	{"J01 empty", "", "", "", "got nothing"},
	{"J02 white space", " \r\n\t", "", "", "got nothing"},
	{"J03 null", "null", "", "", "want an object, got null"},
	{"J04 array", "[]", "", "", "want an object, got an array"},
	{"J05 string", `"text_delta"`, "", "", "want an object, got a string"},
	{"number", "17", "", "", "got the number 17"},
	{"J06 truncated", `{"type":"text_delta",` + base + `,"delta":"x`, "", "", "an end in the middle"},
	{"truncated in an escape", `{"type":"\ud83d\u`, "", "", "an end in the middle"},
	{"J07 two documents", `{"type":"text_delta",` + base + `,"delta":"x"} {}`, "", "", "more behind it"},
	{"J08 trailing comma", `{"type":"text_delta",` + base + `,"delta":"x",}`, "", "", "syntax error at byte"},
	{"J09 comment", `{"type":"text_delta",` + base + `,"delta":"x"/**/}`, "", "", "syntax error"},
	{"J10 NaN", `{"type":"output",` + base + `,"output":NaN}`, "", "", "syntax error"},
	{"J11 single quotes", `{'type':'text_delta'}`, "", "", "syntax error"},
	{"name without quotes", `{type:"text_delta"}`, "", "", "syntax error"},
	{"J12 byte order mark", "\ufeff" + `{"type":"step_start",` + base + `}`, "", "", "syntax error"},
	{"J13 UTF-16", "{\x00\"\x00t\x00y\x00p\x00e\x00", "", "", "want JSON"},
	{"J14 invalid UTF-8 in a value", `{"type":"text_delta",` + base + ",\"delta\":\"\xff\"}", "", "", "UTF-8"},
	{"J15 overlong UTF-8", `{"type":"text_delta",` + base + ",\"delta\":\"\xc0\xaf\"}", "", "", "UTF-8"},
	{"J16 surrogate in UTF-8", `{"type":"text_delta",` + base + ",\"delta\":\"\xed\xa0\xbd\"}", "", "", "UTF-8"},
	{"surrogate in UTF-8 beside a lone escape", `{"type":"text_delta",` + base + ",\"delta\":\"\xed\xa0\xbd\\ud83d\"}", "", "", "UTF-8"},
	{"J17 invalid UTF-8 in a name", `{"type":"step_start",` + base + ",\"\xff\":1}", "", "", "UTF-8"},
	{"J20 NUL in an identifier", `{"type":"tool_arg_stream_end",` + base + `,"toolCallId":"a\u0000b"}`, "tool_arg_stream_end", "toolCallId", "control character"},
	{"NUL in the agent", `{"type":"step_start","agentId":"a\u0000","agentType":"","timestamp":1}`, "step_start", "agentId", "control character"},
	{"J22 raw control character", `{"type":"text_delta",` + base + ",\"delta\":\"\x01\"}", "", "", "syntax error"},
	{"J23 raw line break in a string", `{"type":"text_delta",` + base + ",\"delta\":\"a\nb\"}", "", "", "syntax error"},
	{"J24 duplicate name", `{"type":"text_delta",` + base + `,"delta":"x","delta":"y"}`, "", "delta", "two of this name"},
	{"duplicate type", `{"type":"text_delta","type":"output",` + base + `,"delta":"x"}`, "", "type", "two of this name"},
	{"duplicate in another spelling", `{"type":"text_delta",` + base + `,"delta":"x","\u0064elta":"y"}`, "", "delta", "two of this name"},
	{"duplicate deep in a value", `{"type":"output",` + base + `,"output":[{"a":[0,{"b":1,"b":2}]}]}`, "", "output/0/a/1/b", "two of this name"},
	{"duplicate beside a lone surrogate", `{"type":"output",` + base + `,"output":["\ud83d",{"a/b":1,"a/b":2}]}`, "", "output/1/a~1b", "two of this name"},
	{"duplicate lone surrogates", `{"type":"output",` + base + `,"output":{"\ud83d":1,"\uD83D":2}}`, "", "output/\xed\xa0\xbd", "two of this name"},
	{"J25 name in another case", `{"type":"text_delta",` + base + `,"Delta":"x"}`, "text_delta", "delta", "delta: want a string"},
	{"base name in another case", `{"type":"step_start","AgentId":"a","agentType":"t","timestamp":1}`, "step_start", "agentId", "want a string"},
	{"J27 wrong type", `{"type":"text_delta",` + base + `,"delta":17}`, "text_delta", "delta", "want a string, got the number 17"},
	{"wrong type of a boolean", `{"type":"thinking",` + base + `,"content":"","isComplete":"true"}`, "thinking", "isComplete", "want a boolean, got a string"},
	{"wrong type of an object", `{"type":"tool_start",` + base + `,"toolCallId":"c","toolName":"n","arguments":[]}`, "tool_start", "arguments", "want an object, got an array"},
	{"wrong type of an optional member", `{"type":"step_start",` + base + `,"stepId":{}}`, "step_start", "stepId", "want a string, got an object"},
	{"wrong type of a number", `{"type":"step_end",` + base + `,"usage":{"inputTokens":"1","outputTokens":1}}`, "step_end", "usage/inputTokens", "want a number, got a string"},
	{"wrong type of the type", `{"type":1,` + base + `}`, "", "type", "want a string"},
	{"wrong type in a list", `{"type":"state_patch",` + base + `,"patches":[{"op":"remove","path":""},7]}`, "state_patch", "patches/1", "want an object, got the number 7"},
	{"wrong type of a list", `{"type":"state_patch",` + base + `,"patches":{}}`, "state_patch", "patches", "want an array, got an object"},
	{"J28 missing", `{"type":"text_delta",` + base + `}`, "text_delta", "delta", "delta: want a string"},
	{"missing type", `{` + base + `,"delta":"x"}`, "", "type", "chunk.type: want a string"},
	{"missing agent", `{"type":"step_start","agentType":"t","timestamp":1}`, "step_start", "agentId", "want a string"},
	{"empty agent", `{"type":"step_start","agentId":"","agentType":"t","timestamp":1}`, "step_start", "agentId", "got an empty string"},
	{"missing agent type", `{"type":"step_start","agentId":"a","timestamp":1}`, "step_start", "agentType", "want a string"},
	{"missing timestamp", `{"type":"step_start","agentId":"a","agentType":"t"}`, "step_start", "timestamp", "want an integer"},
	{"missing member of a part", `{"type":"error",` + base + `,"error":"e","recoverable":true,"errorDetail":{"code":"x"}}`, "error", "errorDetail/message", "want a string"},
	{"missing member of a deep part", `{"type":"run_started",` + base + `,"runId":"r","epoch":1,"mode":"execute","input":[{"content":"","files":[{"url":"u"}]}]}`, "run_started", "input/0/files/0/mediaType", "want a string"},
	{"missing object", `{"type":"tool_start",` + base + `,"toolCallId":"c","toolName":"n"}`, "tool_start", "arguments", "want an object"},
	{"missing nullable", `{"type":"run_interrupted",` + base + `,"runId":"r"}`, "run_interrupted", "checkpointId", "want a string or null"},
	{"J29 null member", `{"type":"text_delta",` + base + `,"delta":null}`, "text_delta", "delta", "got null"},
	{"null optional member", `{"type":"step_start",` + base + `,"stepId":null}`, "step_start", "stepId", "got null"},
	{"null step", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":1,"step":null}`, "step_start", "step", "got null"},
	{"J30 number over a double", `{"type":"step_end",` + base + `,"usage":{"inputTokens":1e400,"outputTokens":1}}`, "step_end", "usage/inputTokens", "range of a double"},
	{"1e400 as integer", `{"type":"checkpoint_created",` + base + `,"runId":"r","checkpointId":"c","stepCount":1e400}`, "checkpoint_created", "stepCount", "integer within 53 bits"},
	{"J31 200 kB integer", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":` + strings.Repeat("9", 200_000) + `}`, "step_start", "timestamp", "a number of 200000 characters"},
	{"J32 2^53", `{"type":"checkpoint_created",` + base + `,"runId":"r","checkpointId":"c","stepCount":9007199254740992}`, "checkpoint_created", "stepCount", "9007199254740992"},
	{"-2^53", `{"type":"checkpoint_created",` + base + `,"runId":"r","checkpointId":"c","stepCount":-9007199254740992}`, "checkpoint_created", "stepCount", "-9007199254740992"},
	{"2^64 and some", `{"type":"checkpoint_created",` + base + `,"runId":"r","checkpointId":"c","stepCount":18446744073709551617}`, "checkpoint_created", "stepCount", "got the number"},
	{"J33 minus zero", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":1,"step":-0}`, "step_start", "step", "got the number -0"},
	{"J34 one point zero", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":1.0}`, "step_start", "timestamp", "got the number 1.0"},
	{"exponent", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":1e3}`, "step_start", "timestamp", "got the number 1e3"},
	{"leading zero", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":01}`, "", "", "syntax error"},
	{"negative step", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":1,"step":-1}`, "step_start", "step", "0 or more"},
	{"J45 line break in an event name", `{"type":"custom",` + base + `,"eventName":"a\ndata: x","data":1}`, "custom", "eventName", "control character"},
	{"J48 timestamp before 1970", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":-1}`, "step_start", "timestamp", "year 10000"},
	{"timestamp in microseconds", `{"type":"step_start","agentId":"a","agentType":"t","timestamp":1767225600000000}`, "step_start", "timestamp", "year 10000"},
	{"J49 script as a file", `{"type":"file",` + base + `,"url":"\u0001 JavaScript:alert(1)","mediaType":"x"}`, "file", "url", "a script"},
	{"script with a tab in it", `{"type":"source_url",` + base + `,"sourceId":"s","url":"java\tscript:alert(1)"}`, "source_url", "url", "a script"},
	{"file that climbs", `{"type":"file",` + base + `,"url":"/files/../../etc/passwd","mediaType":"x"}`, "file", "url", "segment"},
	{"file that climbs in disguise", `{"type":"file",` + base + `,"url":"/files/%2e%2E/passwd","mediaType":"x"}`, "file", "url", "segment"},
	{"file name that climbs", `{"type":"file",` + base + `,"url":"u","mediaType":"x","filename":"..\\boot.ini"}`, "file", "filename", "segment"},
	{"unknown operation", `{"type":"state_patch",` + base + `,"patches":[{"op":"Add","path":"","value":1}]}`, "state_patch", "patches/0/op", `got "Add"`},
	{"add without value", `{"type":"state_patch",` + base + `,"patches":[{"op":"add","path":""}]}`, "state_patch", "patches/0/value", "want a value for add"},
	{"move without from", `{"type":"state_patch",` + base + `,"patches":[{"op":"remove","path":""},{"op":"move","path":""}]}`, "state_patch", "patches/1/from", "want a JSON pointer"},
	{"pointer without slash", `{"type":"state_patch",` + base + `,"patches":[{"op":"remove","path":"a"}]}`, "state_patch", "patches/0/path", "slash"},
	{"pointer with a bare tilde", `{"type":"state_patch",` + base + `,"patches":[{"op":"copy","path":"","from":"/a~"}]}`, "state_patch", "patches/0/from", "~0 nor ~1"},
	{"pointer without end", `{"type":"state_patch",` + base + `,"patches":[{"op":"remove","path":"` + strings.Repeat("/a", 65) + `"}]}`, "state_patch", "patches/0/path", "64 segments"},
	{"too many operations", `{"type":"state_patch",` + base + `,"patches":[` + strings.Repeat(`{"op":"remove","path":""},`, 1000) + `{"op":"remove","path":""}]}`, "state_patch", "patches", "at most 1000 operations"},
	{"unknown finish reason", `{"type":"step_end",` + base + `,"finishReason":"tired"}`, "step_end", "finishReason", `got "tired"`},
	{"unknown kind", `{"type":"suspension_marker",` + base + `,"kind":"x","payload":{}}`, "suspension_marker", "kind", "want one of"},
	{"long enumerated member", `{"type":"step_end",` + base + `,"finishReason":"` + strings.Repeat("x", 300) + `"}`, "step_end", "finishReason", `x"…`},
	{"empty type", `{"type":"",` + base + `}`, "", "type", "visible ASCII"},
	{"type with a line break", `{"type":"a\r\nce-id: 1",` + base + `}`, "", "type", "visible ASCII"},
	{"long type", `{"type":"` + strings.Repeat("x", 129) + `",` + base + `}`, "", "type", "1 to 128"},
	{"unknown type without agent", `{"type":"hologram","step":1}`, "hologram", "agentId", "want a string"},
	{"unknown type with an empty agent", `{"type":"hologram","agentId":""}`, "hologram", "agentId", "empty"},
	{"long name", `{"type":"step_start",` + base + `,"` + strings.Repeat("n", 129) + `":1}`, "", "", "names of at most 128 bytes"},
	{"33 levels", `{"type":"output",` + base + `,"output":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, "", "", "at most 32 levels"},
	{"too many values", `{"type":"output",` + base + `,"output":[` + strings.Repeat("0,", 20_000) + `0]}`, "", "", "at most 20000 values"},
}

func TestRefusals(t *testing.T) {
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			c, err := chunk.Decode([]byte(tt.input))
			bad, ok := errors.AsType[*chunk.FieldError](err)
			if !ok || !errors.Is(err, chunk.ErrInvalid) {
				t.Fatalf("Decode = %+v, %v, want a FieldError", c, err)
			}
			if bad.Type != tt.typ || bad.Field != tt.field || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("type %q, field %q, text %q; want %q, %q, %q", bad.Type, bad.Field, err, tt.typ, tt.field, tt.text)
			}
			if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("an error to break a log: %q", err)
			}
		})
	}
}

// TestAcceptances has unusual input that is valid.
func TestAcceptances(t *testing.T) {
	tests := map[string]string{
		"J18 lone high surrogate":        `{"type":"text_delta",` + base + `,"delta":"\ud83d"}`,
		"J19 lone low surrogate":         `{"type":"text_delta",` + base + `,"delta":"\ude00\ud83d"}`,
		"J21 NUL in text":                `{"type":"text_delta",` + base + `,"delta":"a\u0000b"}`,
		"J26 unknown type":               `{"type":"hologram","agentId":"a","timestamp":"soon"}`,
		"J30 1e400 elsewhere":            `{"type":"output",` + base + `,"output":1e400}`,
		"J32 large integer elsewhere":    `{"type":"output",` + base + `,"output":[9007199254740993,-0,1.0]}`,
		"J43 __proto__":                  `{"type":"output",` + base + `,"output":{"__proto__":{"x":1}},"__proto__":2}`,
		"J44 text of an event stream":    `{"type":"text_delta",` + base + `,"delta":"\n\ndata: x\r\nid: 7\n\n"}`,
		"largest integers":               `{"type":"checkpoint_created",` + base + `,"runId":"r","checkpointId":"c","stepCount":-9007199254740991}`,
		"last timestamp":                 `{"type":"step_start","agentId":"a","agentType":"t","timestamp":253402300799999,"step":9007199254740991}`,
		"31 levels below the chunk":      `{"type":"output",` + base + `,"output":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`,
		"20,000 values":                  `{"type":"output",` + base + `,"output":[` + strings.Repeat("0,", 20_000-8) + `0]}`,
		"name of 128 bytes, escaped":     `{"type":"step_start",` + base + `,"` + strings.Repeat(`\u006e`, 128) + `":1}`,
		"lone surrogates differ":         `{"type":"output",` + base + `,"output":{"\ud83d":1,"\ud83e":2,"\ufffd":3}}`,
		"escaped names":                  `{"\u0074ype":"text_delta",` + base + `,"d\u0065lta":"x"}`,
		"empty list that may be absent":  `{"type":"run_started",` + base + `,"runId":"r","epoch":1,"mode":"execute","input":[{"content":"","files":[]},{"content":""}]}`,
		"empty lists":                    `{"type":"state_patch",` + base + `,"patches":[]}`,
		"null for any":                   `{"type":"output",` + base + `,"output":null}`,
		"null for nullable":              `{"type":"run_resumed",` + base + `,"runId":"r","fromCheckpointId":null,"fromStepCount":0,"mode":"new one"}`,
		"empty text":                     `{"type":"text_delta",` + base + `,"delta":""}`,
		"empty identifier":               `{"type":"tool_arg_stream_end",` + base + `,"toolCallId":""}`,
		"path in a data URL":             `{"type":"file",` + base + `,"url":"data:text/plain,../..","mediaType":"text/plain"}`,
		"dots in a file name":            `{"type":"file",` + base + `,"url":"https://x/a..b?../..","mediaType":"x","filename":"a...b"}`,
		"colon that ends no such scheme": `{"type":"source_url",` + base + `,"sourceId":"s","url":"/javascript:x"}`,
		"white space everywhere":         " \t\r\n{ \"type\" : \"step_start\" , " + base + " , \"x\" : [ ] } \n",
	}
	for name, input := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := chunk.Decode([]byte(input))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			want := mustParse(t, []byte(input)).(jsonObject)
			back := mustParse(t, got).(jsonObject)
			if _, ok := want[key("step")]; !ok {
				delete(back, key("step"))
			}
			if !sameJSON(back, want) {
				t.Errorf("written as %s", got)
			}
		})
	}
}

// TestUnwritable: AppendJSON rejects what Decode would reject.
func TestUnwritable(t *testing.T) {
	with := func(change func(*chunk.Chunk)) chunk.Chunk {
		c := chunktest.Of(chunk.StepStart{})
		change(&c)
		return c
	}
	output := func(v string) chunk.Chunk { return chunktest.Of(chunk.Output{Output: chunk.Value(v)}) }
	opaque := func(raw string) chunk.Chunk {
		return chunk.Chunk{AgentID: "a", Step: 1, Body: chunk.Opaque{Kind: "x", Raw: chunk.Value(raw)}}
	}
	extra := func(names ...string) chunk.Chunk {
		return with(func(c *chunk.Chunk) {
			for _, n := range names {
				c.Extra = append(c.Extra, chunk.Member{Name: n, Value: chunk.Value("1")})
			}
		})
	}
	tests := []struct {
		name  string
		chunk chunk.Chunk
		field string
	}{
		{"no body", chunk.Chunk{AgentID: "a"}, "type"},
		{"pointer to a body", chunktest.Of(&chunk.StepStart{}), "type"},
		{"body of another package", chunktest.Of(unknownBody{}), "type"},
		{"no agent", with(func(c *chunk.Chunk) { c.AgentID = "" }), "agentId"},
		{"no UTF-8 in the agent", with(func(c *chunk.Chunk) { c.AgentID = "\xff" }), "agentId"},
		{"no UTF-8 in the agent type", with(func(c *chunk.Chunk) { c.AgentType = "\xc0\x80" }), "agentType"},
		{"timestamp", with(func(c *chunk.Chunk) { c.Timestamp = chunk.MaxTimestamp + 1 }), "timestamp"},
		{"step", with(func(c *chunk.Chunk) { c.Step = -1 }), "step"},
		{"step over 53 bits", with(func(c *chunk.Chunk) { c.Step = chunk.MaxInteger + 1 }), "step"},
		{"no UTF-8 in text", chunktest.Of(chunk.TextDelta{Delta: "a\xed\xa0"}), "delta"},
		{"integer over 53 bits", chunktest.Of(chunk.CheckpointCreated{StepCount: chunk.MaxInteger + 1}), "stepCount"},
		{"enumerated member", chunktest.Of(chunk.StepEnd{FinishReason: new("")}), "finishReason"},
		{"no number", chunktest.Of(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "1", OutputTokens: ""}}), "usage/outputTokens"},
		{"two numbers", chunktest.Of(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "1 2", OutputTokens: "1"}}), "usage/inputTokens"},
		{"number of another syntax", chunktest.Of(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "0x1p4", OutputTokens: "1"}}), "usage/inputTokens"},
		{"number over a double", chunktest.Of(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "1e999", OutputTokens: "1"}}), "usage/inputTokens"},
		{"arguments of another type", chunktest.Of(chunk.ToolStart{Arguments: chunk.Value("1")}), "arguments"},
		{"no arguments", chunktest.Of(chunk.ToolStart{}), "arguments"},
		{"value that ends the object", output(`1,"step":2`), "output"},
		{"malformed value", output("nul"), "output"},
		{"value of white space", output("\n"), "output"},
		{"value that is not UTF-8", output("\"\xff\""), "output"},
		{"value with a name twice", output(`{"a":1,"a":2}`), "output/a"},
		{"value too deep", output(strings.Repeat("[", 32) + strings.Repeat("]", 32)), ""},
		{"deep bomb", output(strings.Repeat("[", 100_000)), "output"},
		{"values too many together", with(func(c *chunk.Chunk) {
			list := chunk.Value("[" + strings.Repeat("1,", 11_000) + "1]")
			c.Extra = []chunk.Member{{Name: "a", Value: list}, {Name: "b", Value: list}}
		}), ""},
		{"patch", chunktest.Of(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "x"}}}), "patches/0/path"},
		{"event name", chunktest.Of(chunk.Custom{EventName: "\r"}), "eventName"},
		{"script", chunktest.Of(chunk.File{URL: "javascript:1"}), "url"},
		{"extra member of the base", extra("step"), "step"},
		{"extra member of the body", extra("stepId"), "stepId"},
		{"extra member twice", extra("x", "x"), "x"},
		{"extra member with a long name", extra(strings.Repeat("x", 129)), ""},
		{"extra member that is not UTF-8", extra("\xff"), "\xff"},
		{"extra member of a part", chunktest.Of(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "1", OutputTokens: "1", Extra: []chunk.Member{{Name: "inputTokens"}}}}), "usage/inputTokens"},
		{"malformed opaque", opaque("{"), ""},
		{"opaque of a known type", opaque(`{"type":"step_start","agentId":"a","agentType":"","timestamp":0,"step":1}`), "type"},
		{"opaque of another type", opaque(`{"type":"y","agentId":"a","step":1}`), "type"},
		{"opaque of another agent", opaque(`{"type":"x","agentId":"b","step":1}`), "agentId"},
		{"opaque of another agent type", opaque(`{"type":"x","agentId":"a","agentType":"t","step":1}`), "agentType"},
		{"opaque of another time", opaque(`{"type":"x","agentId":"a","timestamp":5,"step":1}`), "timestamp"},
		{"opaque of another step", opaque(`{"type":"x","agentId":"a","step":2}`), "step"},
		{"opaque with extra members", chunk.Chunk{
			AgentID: "a", Body: chunk.Opaque{Kind: "x", Raw: chunk.Value(`{"type":"x","agentId":"a"}`)}, Extra: []chunk.Member{{Name: "y"}},
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.chunk.Validate()
			bad, ok := errors.AsType[*chunk.FieldError](err)
			if !ok || bad.Field != tt.field {
				t.Errorf("Validate = %v, want a FieldError of %q", err, tt.field)
			}
		})
	}
}

type unknownBody struct{ chunk.StepStart }
