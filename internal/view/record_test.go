package view_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/view"
)

const secret = "S3CRET"

var (
	root  = chunk.RootSession("acme", "root")
	child = root.Child("kid")
)

// everything shows all known and unknown types.
func everything() view.View { return view.View{Types: []chunk.Type{"*"}, SubAgents: true, Extra: true} }

func compile(t interface {
	Helper()
	Fatal(args ...any)
}, v view.View,
) *view.Compiled {
	t.Helper()
	compiled, err := v.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func record(s chunk.Session, typ chunk.Type, data []byte) chunk.Record {
	return chunk.Record{Seq: 7, Ordinal: 3, Session: s, Type: typ, Data: data}
}

// fullOf returns a chunk with all members of its type, without hidden user messages.
func fullOf(t *testing.T, typ chunk.Type) []byte {
	t.Helper()
	text, err := chunktest.Full(typ).AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(text, []byte(`"hidden":true`), []byte(`"tone":"kind"`))
}

// hideable calls yield with the path and schema of each member of a type that can be hidden.
func hideable(shapes []chunk.MemberSchema, under string, yield func(path string, s chunk.MemberSchema)) {
	for _, s := range shapes {
		if !s.Required || s.Empty != nil {
			yield(under+s.Name, s)
		}
		hideable(s.Members, under+s.Name+".", yield)
	}
}

// For each member of each type: if it is hidden, its value is not in the output, however it is written, and the output is a valid chunk.
func TestHiddenMembersAreNotInTheOutput(t *testing.T) {
	for _, typ := range chunk.Types() {
		hideable(chunk.Schema(typ), "", func(path string, s chunk.MemberSchema) {
			if typ == chunk.TypeStatePatch && path != "patches" {
				return // rejected, see TestViewsThatAreRefused
			}
			t.Run(string(typ)+"/"+path, func(t *testing.T) {
				v := view.View{Types: []chunk.Type{typ}, Hide: map[chunk.Type][]string{typ: {path}}, Extra: true}
				compiled := compile(t, v)
				for _, written := range []string{secret, `\u0053\u0033CRET`} {
					data := plant(t, fullOf(t, typ), strings.Split(path, "."), s, written)
					got, shown := compiled.Record(record(root, typ, data))
					if !shown {
						t.Fatalf("%s is not shown", data)
					}
					checkShown(t, got, typ)
					if hasSecret(t, got.Data) {
						t.Errorf("%s\ntells the secret of\n%s", got.Data, data)
					}
				}
			})
		})
	}
}

// plant puts the secret into a member, in a form that its schema allows.
func plant(t *testing.T, data []byte, path []string, s chunk.MemberSchema, written string) []byte {
	t.Helper()
	text := plantAt(t, data, path, func(old []byte) []byte {
		switch {
		case s.Any:
			return []byte(`{"deep":[{"` + written + `":"` + written + `"}]}`)
		case s.Members != nil:
			return bytes.ReplaceAll(old, []byte("{"), []byte(`{"`+written+`":"`+written+`",`))
		case len(old) > 0 && old[0] == '"':
			return []byte(`"` + written + `"`)
		}
		return old // a number or a flag: the comparison with the reference checks that the member is gone
	})
	if _, err := chunk.Decode(text); err != nil {
		return data // it must be one of a list of words
	}
	return text
}

func plantAt(t *testing.T, text []byte, path []string, put func(old []byte) []byte) []byte {
	t.Helper()
	if len(path) == 0 {
		return put(text)
	}
	var list []json.RawMessage
	if text[0] == '[' {
		unmarshal(t, text, &list)
		for i := range list {
			list[i] = plantAt(t, list[i], path, put)
		}
		return marshal(t, list)
	}
	members := map[string]json.RawMessage{}
	unmarshal(t, text, &members)
	if old, has := members[path[0]]; has {
		members[path[0]] = plantAt(t, old, path[1:], put)
	}
	return marshal(t, members)
}

func unmarshal(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// hasSecret reports whether text contains the secret, verbatim or escaped.
func hasSecret(t *testing.T, text []byte) bool {
	t.Helper()
	var v any
	unmarshal(t, text, &v)
	return strings.Contains(string(text), secret) || strings.Contains(string(marshal(t, v)), secret)
}

func checkShown(t *testing.T, got chunk.Record, typ chunk.Type) {
	t.Helper()
	if got.Seq != 7 || got.Ordinal != 3 || got.Type != typ {
		t.Errorf("it became record %d of type %s", got.Seq, got.Type)
	}
	c, err := chunk.Decode(got.Data)
	if err != nil {
		t.Errorf("%s: %v", got.Data, err)
	} else if c.Type() != typ {
		t.Errorf("%s: type %s, want %s", got.Data, c.Type(), typ)
	}
}

// TestRecordsAgainstReference compares the output with that of a simple recursive function over the parsed JSON, for any chunk and any view. Order and bytes
// are preserved, and applying the view again changes nothing.
func TestRecordsAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(chunk.Types()).Draw(t, "type")
		var paths []string
		hideable(chunk.Schema(typ), "", func(path string, _ chunk.MemberSchema) {
			if typ != chunk.TypeStatePatch || path == "patches" {
				paths = append(paths, path)
			}
		})
		v := view.View{Types: []chunk.Type{typ}, Extra: rapid.Bool().Draw(t, "extra")}
		if len(paths) > 0 {
			v.Hide = map[chunk.Type][]string{typ: rapid.SliceOfDistinct(rapid.SampledFrom(paths), rapid.ID[string]).Draw(t, "hide")}
		}
		c := chunktest.ChunksOf(typ).Draw(t, "chunk")
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		compiled := compile(t, v)
		got, shown := compiled.Record(record(root, typ, data))
		if !shown {
			t.Fatalf("%s is not shown", data)
		}
		want := reference(t, v, typ, data)
		if !slices.Equal(canonical(t, parse(t, got.Data)), canonical(t, want)) {
			t.Fatalf("%+v of\n%s\nis\n%s\nwant\n%s", v, data, got.Data, canonical(t, want))
		}
		if v.Extra && len(v.Hide[typ]) == 0 && typ != chunk.TypeRunStarted && !bytes.Equal(got.Data, data) {
			t.Fatalf("nothing is hidden, and\n%s\nbecame\n%s", data, got.Data)
		}
		again, shown := compiled.Record(got)
		if !shown || !bytes.Equal(again.Data, got.Data) {
			t.Fatalf("%s\nseen once more is\n%s", got.Data, again.Data)
		}
		if d, err := chunk.Decode(got.Data); err != nil || d.Type() != typ || d.AgentID != c.AgentID || d.Step != c.Step || d.Timestamp != c.Timestamp {
			t.Fatalf("%s: %v", got.Data, err)
		}
	})
}

func parse(t *rapid.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

func canonical(t *rapid.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// reference returns the output of a view, in the simplest form.
func reference(t *rapid.T, v view.View, typ chunk.Type, data []byte) any {
	t.Helper()
	value := parse(t, data)
	shapes := slices.Concat(chunk.Schema(typ), []chunk.MemberSchema{{Name: "type"}, {Name: "agentId"}, {Name: "agentType"}, {Name: "timestamp"}, {Name: "step"}})
	if typ == chunk.TypeRunStarted && !slices.Contains(v.Hide[typ], "input") {
		refUnshown(value)
	}
	if !v.Extra {
		refKnown(value, shapes)
	}
	for _, path := range v.Hide[typ] {
		refHide(t, value, shapes, strings.Split(path, "."), typ)
	}
	return value
}

func refKnown(value any, shapes []chunk.MemberSchema) {
	switch value := value.(type) {
	case []any:
		for _, e := range value {
			refKnown(e, shapes)
		}
	case map[string]any:
		maps.DeleteFunc(value, func(name string, _ any) bool {
			return !slices.ContainsFunc(shapes, func(s chunk.MemberSchema) bool { return s.Name == name })
		})
		for _, s := range shapes {
			if s.Members != nil {
				refKnown(value[s.Name], s.Members)
			}
		}
	}
}

func refHide(t *rapid.T, value any, shapes []chunk.MemberSchema, path []string, typ chunk.Type) {
	t.Helper()
	switch value := value.(type) {
	case []any:
		for _, e := range value {
			refHide(t, e, shapes, path, typ)
		}
	case map[string]any:
		s := shapes[slices.IndexFunc(shapes, func(s chunk.MemberSchema) bool { return s.Name == path[0] })]
		_, has := value[path[0]]
		switch {
		case len(path) > 1:
			refHide(t, value[path[0]], s.Members, path[1:], typ)
		case !has || refIsUnshown(value):
		case s.Required:
			value[path[0]] = parse(t, s.Empty)
		case typ == chunk.TypeToolEnd && path[0] == "error":
			value[path[0]] = ""
		default:
			delete(value, path[0])
		}
	}
}

func refIsUnshown(message map[string]any) bool {
	metadata, _ := message["metadata"].(map[string]any)
	return metadata["hidden"] == true || metadata["hidden"] == "true"
}

func refUnshown(started any) {
	messages, _ := started.(map[string]any)["input"].([]any)
	for i, m := range messages {
		if m, ok := m.(map[string]any); ok && refIsUnshown(m) {
			messages[i] = map[string]any{"content": "", "metadata": map[string]any{"hidden": true}}
		}
	}
}

// Data that does not match the type of its record is not shown, because clients could read anything in it.
func TestHostileRecords(t *testing.T) {
	hides := view.View{Types: []chunk.Type{"*"}, Hide: map[chunk.Type][]string{"tool_start": {"arguments"}}, Except: []chunk.Type{"tool_arg_stream_delta", "tool_approval_request", "tool_input_error"}, Extra: true}
	compiled := compile(t, hides)
	const base = `"agentId":"a","agentType":"","timestamp":1,"toolCallId":"c","toolName":"n"`
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for name, data := range map[string]string{
		"no JSON":                 `{"type":"tool_start",`,
		"nothing":                 ``,
		"no object":               `["tool_start"]`,
		"another type":            `{"type":"text_delta","agentId":"a","agentType":"","timestamp":1,"delta":"` + secret + `"}`,
		"no type":                 `{` + base + `,"arguments":{}}`,
		"two types":               `{"type":"text_delta","type":"tool_start",` + base + `,"arguments":{}}`,
		"a member twice":          `{"type":"tool_start",` + base + `,"arguments":{},"arguments":{"a":"` + secret + `"}}`,
		"twice, once escaped":     `{"type":"tool_start",` + base + `,"arguments":{},"\u0061rguments":{"a":"` + secret + `"}}`,
		"twice, a surrogate near": `{"type":"tool_start",` + base + `,"x":"\ud800","arguments":{},"\u0061rguments":{}}`,
		"more behind it":          `{"type":"tool_start",` + base + `,"arguments":{}}{"a":"` + secret + `"}`,
		"too deep":                `{"type":"tool_start",` + base + `,"arguments":{},"x":` + deep + `}`,
		"of another form":         `{"type":"tool_start",` + base + `,"arguments":"` + secret + `"}`,
		"a member missing":        `{"type":"tool_start","agentId":"a","agentType":"","timestamp":1,"toolCallId":"c","arguments":{}}`,
		"no UTF-8":                "{\"type\":\"tool_start\"," + base + ",\"arguments\":{\"a\":\"\xff\"}}",
	} {
		t.Run(name, func(t *testing.T) {
			if got, shown := compiled.Record(record(root, chunk.TypeToolStart, []byte(data))); shown {
				t.Errorf("shown: %s", got.Data)
			}
		})
	}
	// A name is the same in each spelling of its JSON, and different in upper case.
	data := `{"type":"tool_start",` + base + `,"\u0061rguments":{"a":"` + secret + `"},"Arguments":1,"big":123456789012345678901234567890}`
	got, _ := compiled.Record(record(root, chunk.TypeToolStart, []byte(data)))
	if want := `{"type":"tool_start",` + base + `,"\u0061rguments":{},"Arguments":1,"big":123456789012345678901234567890}`; string(got.Data) != want {
		t.Errorf("got  %s\nwant %s", got.Data, want)
	}
}

// TestStreamEventsAreAlwaysShown: stream events are shown by every view and with any content, because readers wait for them.
func TestStreamEventsAreAlwaysShown(t *testing.T) {
	compiled := compile(t, view.View{})
	for _, typ := range chunk.Types() {
		event := typ.Control() && typ != chunk.TypeRunStarted
		for _, s := range []chunk.Session{root, child} {
			got, shown := compiled.Record(record(s, typ, fullOf(t, typ)))
			if shown != event {
				t.Errorf("%s shown: %t", typ, shown)
			}
			if shown {
				checkShown(t, got, typ)
			}
			if _, shown := compiled.Record(record(s, typ, []byte("{"))); shown != event {
				t.Errorf("malformed %s shown: %t", typ, shown)
			}
		}
	}
	ended := `{"type":"stream_end","agentId":"a","agentType":"","timestamp":1,"streamId":"root","finalOutput":{"a":"` + secret + `"}}`
	if got, _ := compiled.Record(record(root, chunk.TypeStreamEnd, []byte(ended))); hasSecret(t, got.Data) {
		t.Errorf("the end has %s", got.Data)
	}
	nameless := compile(t, view.View{Types: []chunk.Type{chunk.TypeTextDelta}, Hide: map[chunk.Type][]string{"*": {"agentType"}}})
	if got, _ := nameless.Record(record(root, chunk.TypeStreamEnd, fullOf(t, chunk.TypeStreamEnd))); !bytes.Contains(got.Data, []byte(`"agentType":"",`)) {
		t.Errorf("the end has the agent: %s", got.Data)
	}
}

// A type that this build does not know is shown if the view names it, without the members that the view hides by name.
func TestUnknownTypesInAView(t *testing.T) {
	data := []byte(`{"agentId":"a", "type":"hologram","frame":{"x":1.0,"key":"` + secret + `"}}`)
	rec := record(root, "hologram", data)
	if _, shown := compile(t, everything()).Record(rec); shown {
		t.Error("* shows it")
	}
	if got, _ := compile(t, view.View{Types: []chunk.Type{"hologram"}}).Record(rec); string(got.Data) != `{"agentId":"a","type":"hologram","frame":{"x":1.0,"key":"`+secret+`"}}` {
		t.Errorf("by name: %s", got.Data)
	}
	hides := view.View{Types: []chunk.Type{"hologram"}, Hide: map[chunk.Type][]string{"hologram": {"frame.key"}}}
	if got, _ := compile(t, hides).Record(rec); string(got.Data) != `{"agentId":"a","type":"hologram","frame":{"x":1.0}}` {
		t.Errorf("without a key: %s", got.Data)
	}
}

// A hidden path applies inside arrays. If the value is a text, which may contain the same value encoded, all of it is hidden.
func TestPartsOfValues(t *testing.T) {
	compiled := compile(t, view.View{Types: []chunk.Type{"custom"}, Hide: map[chunk.Type][]string{"custom": {"data.items.price"}}})
	const base = `{"type":"custom","agentId":"a","agentType":"","timestamp":1,"eventName":"cart","data":`
	for data, want := range map[string]string{
		`{"items":[{"id":1,"price":2},{"price":3}],"n":[1,"x"]}`: `{"items":[{"id":1},{}],"n":[1,"x"]}`,
		`[{"items":{"price":2}}]`:                                `[{"items":{}}]`,
		`"{\"items\":[{\"price\":2}]}"`:                          `null`,
		`{"items":"[{\"price\":2}]"}`:                            `{"items":null}`,
		`42`:                                                     `42`,
	} {
		got, _ := compiled.Record(record(root, chunk.TypeCustom, []byte(base+data+`}`)))
		if string(got.Data) != base+want+`}` {
			t.Errorf("%s\nis %s\nwant %s", data, got.Data, base+want+`}`)
		}
	}
}

// TestSubAgents: the input of a sub-agent is the arguments of its tool call, and its output is shown only by a view with SubAgents.
func TestSubAgents(t *testing.T) {
	rec := record(child, chunk.TypeRunStarted, fullOf(t, chunk.TypeRunStarted))
	v := view.View{Types: []chunk.Type{chunk.TypeRunStarted, chunk.TypeToolStart}}
	if _, shown := compile(t, v).Record(rec); shown {
		t.Error("a sub-agent is shown by a view that does not say so")
	}
	v.SubAgents = true
	if got, _ := compile(t, v).Record(rec); !bytes.Contains(got.Data, []byte(`"clientMessageId"`)) {
		t.Errorf("its input is gone, although arguments are shown: %s", got.Data)
	}
	v.Hide = map[chunk.Type][]string{chunk.TypeToolStart: {"arguments.path"}}
	if got, _ := compile(t, v).Record(rec); !bytes.Contains(got.Data, []byte(`"input":[],`)) {
		t.Errorf("its input has what the arguments hide: %s", got.Data)
	}
}

// A user message that the application hides loses its content in every view. The message and its hidden flag stay, because clients count the messages.
func TestUnshownMessages(t *testing.T) {
	const base = `{"type":"run_started","agentId":"a","agentType":"","timestamp":1,"runId":"r","epoch":1,"mode":"execute","input":[`
	for message, want := range map[string]string{
		`{"content":"S3CRET","files":[{"url":"S3CRET","mediaType":"a/b"}],"metadata":{"hidden":true,"a":"S3CRET"}}`: `{"content":"","metadata":{"hidden":true}}`,
		`{"metadata":{"a":1,"\u0068idden":"true"},"content":"S3CRET"}`:                                              `{"metadata":{"hidden":true},"content":""}`,
		`{"content":"hello","metadata":{"hidden":false}}`:                                                           `{"content":"hello","metadata":{"hidden":false}}`,
		`{"content":"hello","metadata":{"a":{"hidden":true}}}`:                                                      `{"content":"hello","metadata":{"a":{"hidden":true}}}`,
		`{"content":"hello"}`: `{"content":"hello"}`,
	} {
		rec := record(root, chunk.TypeRunStarted, []byte(base+message+`]}`))
		if got, _ := compile(t, everything()).Record(rec); string(got.Data) != base+want+`]}` {
			t.Errorf("%s\nis   %s\nwant %s", message, got.Data, base+want+`]}`)
		}
		if got, _ := compile(t, view.View{Preset: view.Public}).Record(rec); hasSecret(t, got.Data) {
			t.Errorf("the public view shows %s", got.Data)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, s := range chunktest.All() {
		text, err := s.Chunk.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(s.Chunk.Type()), text)
	}
	f.Add("tool_start", []byte(`{"type":"tool_start","\u0061rguments":{},"arguments":{}}`))
	public := compile(f, view.View{Preset: view.Public})
	wide := compile(f, everything())
	f.Fuzz(func(t *testing.T, typ string, data []byte) {
		rec := record(root, chunk.Type(typ), data)
		for _, compiled := range []*view.Compiled{public, wide} {
			got, shown := compiled.Record(rec)
			if !shown || got.Data == nil {
				continue
			}
			checkShown(t, got, rec.Type)
			again, shown := compiled.Record(got)
			if !shown || !bytes.Equal(again.Data, got.Data) {
				t.Fatalf("%q seen once more is %q", got.Data, again.Data)
			}
		}
		if got, shown := public.Record(rec); shown && got.Data != nil {
			checkPublic(t, got)
		}
	})
}

// checkPublic checks that the public output contains nothing that it must not contain.
func checkPublic(t *testing.T, rec chunk.Record) {
	t.Helper()
	c, err := rec.Decode()
	if err != nil {
		t.Fatal(err)
	}
	if c.Extra != nil {
		t.Errorf("unknown members: %s", rec.Data)
	}
	hidden := true
	switch b := c.Body.(type) {
	case chunk.ToolStart:
		hidden = string(b.Arguments) == "{}"
	case chunk.ToolEnd:
		hidden = string(b.Result) == "null" && (b.Error == nil || *b.Error == "") && b.ErrorCode == nil
	case chunk.ToolApprovalRequest:
		hidden = string(b.Input) == "null"
	case chunk.ToolInputError:
		hidden = b.Error == "" && b.PartialInput == nil
	case chunk.ToolOutputError:
		hidden = b.Error == ""
	case chunk.Error:
		hidden = b.Error == "" && b.Code == nil && b.ErrorDetail == nil
	case chunk.StreamEnd:
		hidden = b.FinalOutput == nil
	case chunk.StreamFailed:
		hidden = b.Error == "" && b.ErrorDetail == nil
	case chunk.Thinking, chunk.ToolArgStreamDelta, chunk.SubagentEnd, chunk.Custom, chunk.StatePatch, chunk.Output, chunk.Opaque:
		hidden = false
	}
	if !hidden {
		t.Errorf("the public is shown %s", rec.Data)
	}
}

// BenchmarkRecord measures a view, which is applied once for each record and view, whatever the number of clients.
func BenchmarkRecord(b *testing.B) {
	compiled := compile(b, view.View{Preset: view.Public})
	for _, typ := range []chunk.Type{chunk.TypeTextDelta, chunk.TypeToolEnd, chunk.TypeThinking} {
		b.Run(string(typ), func(b *testing.B) {
			c := chunktest.Full(typ)
			c.Extra = nil
			if typ == chunk.TypeTextDelta {
				c.Body = chunk.TextDelta{Delta: "a piece of text as long as they are"}
			}
			data, err := c.AppendJSON(nil)
			if err != nil {
				b.Fatal(err)
			}
			rec := record(root, typ, data)
			b.ReportAllocs()
			for b.Loop() {
				compiled.Record(rec)
			}
		})
	}
}
