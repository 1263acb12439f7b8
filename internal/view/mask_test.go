package view_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/internal/view"
)

// A masked value has its names, structure, booleans and null, and nothing of its texts and numbers, however they are written.
func TestMaskedValues(t *testing.T) {
	deep := strings.Repeat(`[{"a":`, 14)
	compiled := compile(t, view.View{Types: []chunk.Type{"tool_end"}, Mask: map[chunk.Type][]string{"tool_end": {"result"}}})
	const base = `{"type":"tool_end","agentId":"a","agentType":"","timestamp":1,"toolCallId":"c","toolName":"n","result":`
	for value, want := range map[string]string{
		`"text"`:                                `"•"`,
		`""`:                                    `"•"`,
		`"\ud800"`:                              `"•"`,
		`"a\ud83d\ude00\udc00"`:                 `"•"`,
		`"{\"password\":\"s\"}"`:                `"•"`,
		`"•"`:                                   `"•"`,
		`0`:                                     `"•"`,
		`-1.5e-7`:                               `"•"`,
		`1e999`:                                 `"•"`,
		`123456789012345678901234`:              `"•"`,
		`true`:                                  `true`,
		`false`:                                 `false`,
		`null`:                                  `null`,
		`{}`:                                    `{}`,
		`[ ]`:                                   `[]`,
		"[1, \"a\",\n[null , -2]]":              `["•","•",[null,"•"]]`,
		`{"a": {"\u0062":"x"},"c":false,"":1}`:  `{"a":{"\u0062":"•"},"c":false,"":"•"}`,
		`{"a\ud800":"x"}`:                       `{"a\ud800":"•"}`,
		deep + `"s"` + strings.Repeat("}]", 14): deep + `"•"` + strings.Repeat("}]", 14),
		`{"tailraceValue":"3-tool_end-result-9f86d0","bytes":614402,"mediaType":"application/json","url":"/v1/sessions/s1/values/3-tool_end-result-9f86d0"}`://
		`{"tailraceValue":"•","bytes":"•","mediaType":"•","url":"•"}`,
	} {
		got, shown := compiled.Record(record(root, chunk.TypeToolEnd, []byte(base+value+`}`)))
		if !shown || string(got.Data) != base+want+`}` {
			t.Errorf("%s\nis   %s, %t\nwant %s", value, got.Data, shown, base+want+`}`)
		}
		checkShown(t, got, chunk.TypeToolEnd)
	}
	for name, value := range map[string]string{
		"a name twice":               `{"a":"x"},"result":{"a":"` + secret + `"}`,
		"a name twice, once escaped": `{"a":"x"},"\u0072esult":{"a":"` + secret + `"}`,
		"a name twice in the value":  `{"a":"x","\u0061":"` + secret + `"}`,
		"too deep":                   strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"malformed":                  `{"a":"` + secret,
	} {
		got, _ := compiled.Record(record(root, chunk.TypeToolEnd, []byte(base+value+`}`)))
		if bytes.Contains(got.Data, []byte(secret)) {
			t.Errorf("%s: %s", name, got.Data)
		}
	}
}

// A path selects a part of a value. If there is a text instead, all of it is hidden. A member that is hidden and masked is hidden.
func TestMaskedParts(t *testing.T) {
	for _, tt := range []struct {
		mask, hide []string
		data, want string
	}{
		{[]string{"data.items.price"}, nil, `{"items":[{"id":1,"price":[2,true]},{"price":3}],"n":4}`, `{"items":[{"id":1,"price":["•",true]},{"price":"•"}],"n":4}`},
		{[]string{"data.items.price"}, nil, `"{\"items\":[{\"price\":2}]}"`, `null`},
		{[]string{"data.items.price"}, nil, `{"items":"[{\"price\":2}]"}`, `{"items":null}`},
		{[]string{"data.a", "data"}, nil, `{"a":1,"b":{"c":2}}`, `{"a":"•","b":{"c":"•"}}`},
		{[]string{"data", "data.a"}, nil, `{"a":1,"b":{"c":2}}`, `{"a":"•","b":{"c":"•"}}`},
		{[]string{"data"}, []string{"data.b.c"}, `{"a":1,"b":{"c":2,"d":3}}`, `{"a":"•","b":{"d":"•"}}`},
		{[]string{"data"}, []string{"data.b.c"}, `{"a":1,"b":"text"}`, `{"a":"•","b":"•"}`},
		{[]string{"data.b"}, []string{"data.b.c"}, `{"a":1,"b":[{"c":2,"d":3}]}`, `{"a":1,"b":[{"d":"•"}]}`},
		{[]string{"data"}, []string{"data"}, `{"a":1}`, `null`},
		{[]string{"data.b"}, []string{"data"}, `{"a":1,"b":2}`, `null`},
	} {
		compiled := compile(t, view.View{Types: []chunk.Type{"custom"}, Mask: map[chunk.Type][]string{"custom": tt.mask}, Hide: map[chunk.Type][]string{"custom": tt.hide}})
		const base = `{"type":"custom","agentId":"a","agentType":"","timestamp":1,"eventName":"cart","data":`
		got, _ := compiled.Record(record(root, chunk.TypeCustom, []byte(base+tt.data+`}`)))
		if string(got.Data) != base+tt.want+`}` {
			t.Errorf("mask %q, hide %q: %s\nis   %s\nwant %s", tt.mask, tt.hide, tt.data, got.Data, base+tt.want+`}`)
		}
	}
}

// maskable calls yield with the path of each member of a type that can be masked.
func maskable(shapes []chunk.MemberSchema, under string, yield func(path string)) {
	for _, s := range shapes {
		if s.Any {
			yield(under + s.Name)
		}
		maskable(s.Members, under+s.Name+".", yield)
	}
}

func maskableOf(typ chunk.Type) []string {
	var paths []string
	maskable(chunk.Schema(typ), "", func(path string) {
		if typ != chunk.TypeStatePatch {
			paths = append(paths, path)
		}
	})
	return paths
}

// TestMasksAgainstReference compares masked records with those of a recursive function over the parsed JSON. Applying the view again changes nothing.
func TestMasksAgainstReference(t *testing.T) {
	types := slices.DeleteFunc(chunk.Types(), func(typ chunk.Type) bool { return len(maskableOf(typ)) == 0 })
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		path := rapid.SampledFrom(maskableOf(typ)).Draw(t, "path")
		data, err := chunktest.ChunksOf(typ).Draw(t, "chunk").AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		compiled := compile(t, view.View{Types: []chunk.Type{typ}, Mask: map[chunk.Type][]string{typ: {path}}, Extra: true})
		got, visible := compiled.Record(record(root, typ, data))
		if !visible {
			t.Fatalf("%s is not shown", data)
		}
		want := parse(t, data)
		if typ == chunk.TypeRunStarted {
			refUnshown(want)
		}
		refMaskAt(want, strings.Split(path, "."))
		if !bytes.Equal(canonical(t, parse(t, got.Data)), canonical(t, want)) {
			t.Fatalf("%s masked of\n%s\nis\n%s\nwant\n%s", path, data, got.Data, canonical(t, want))
		}
		if again, _ := compiled.Record(got); !bytes.Equal(again.Data, got.Data) {
			t.Fatalf("%s\nseen once more is\n%s", got.Data, again.Data)
		}
	})
}

func refMaskAt(value any, path []string) {
	switch value := value.(type) {
	case []any:
		for _, e := range value {
			refMaskAt(e, path)
		}
	case map[string]any:
		if of, has := value[path[0]]; has && len(path) == 1 && !refIsUnshown(value) {
			value[path[0]] = refMask(of)
		} else if has && len(path) > 1 {
			refMaskAt(of, path[1:])
		}
	}
}

func refMask(value any) any {
	switch value := value.(type) {
	case nil, bool:
		return value
	case []any:
		for i := range value {
			value[i] = refMask(value[i])
		}
		return value
	case map[string]any:
		for name := range value {
			value[name] = refMask(value[name])
		}
		return value
	}
	return "•"
}

// canaryMember is a word that a test puts into a member with a value of any form.
type canaryMember struct {
	typ  chunk.Type
	path string
}

// canaries returns the records of a session with a word of its own in each member that can be masked, and the members by word.
func (p variant) canaries(t *testing.T) ([]chunk.Record, map[string]canaryMember) {
	t.Helper()
	members := map[string]canaryMember{}
	records := session(t, p.without, func(typ chunk.Type, data []byte) []byte {
		for _, path := range maskableOf(typ) {
			word := fmt.Sprintf("canary%dx", len(members))
			members[word] = canaryMember{typ, path}
			data = plantAt(t, data, strings.Split(path, "."), func([]byte) []byte { return []byte(`{"a":[{"b":"` + word + `"},true]}`) })
		}
		if typ == chunk.TypeToolEnd && p.succeeds {
			data = toolError.ReplaceAll(data, nil)
		}
		if p.asks {
			data = bytes.ReplaceAll(data, []byte(`"isAutomatic":true`), []byte(`"isAutomatic":false`))
		}
		return data
	})
	return records, members
}

var canaryWord = regexp.MustCompile(`canary[0-9]+x`)

// No output of a view, in any dialect, has a word of a masked member, and each word that an output has is in the stream.
func TestMaskedMembersAreInNoOutput(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v := drawView(rt)
		v.Mask = map[chunk.Type][]string{}
		for _, typ := range chunk.Types() {
			for _, path := range maskableOf(typ) {
				if rapid.Bool().Draw(rt, string(typ)+"."+path) {
					v.Mask[typ] = append(v.Mask[typ], path)
				}
			}
		}
		compiled, err := v.Compile()
		if err != nil {
			return // the view would mask a value in one place and show it in another
		}
		records, members := rapid.SampledFrom(variants).Draw(rt, "variant").canaries(t)
		stream, outputs := outputsOf(t, compiled, records)
		for _, out := range append(outputs, stream) {
			for _, word := range canaryWord.FindAll(out, -1) {
				at := members[string(word)]
				if slices.Contains(v.Mask[at.typ], at.path) || !bytes.Contains(stream, word) {
					rt.Fatalf("%s of %s.%s is shown under %+v in\n%s", word, at.typ, at.path, v, out)
				}
			}
		}
	})
}

// The generated views of tests of other packages show no word of what they do not show in the stream.
func TestGeneratedViewsShowNoMoreThanTheStream(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records, members := rapid.SampledFrom(variants).Draw(rt, "variant").canaries(t)
		stream, outputs := outputsOf(t, viewtest.Views().Draw(rt, "view"), records)
		for _, out := range outputs {
			for _, word := range canaryWord.FindAll(out, -1) {
				if !bytes.Contains(stream, word) {
					rt.Fatalf("%s of %+v is not in the stream, and in\n%s", word, members[string(word)], out)
				}
			}
		}
	})
}

// outputsOf returns what a view shows of records: the stream, and all other forms.
func outputsOf(t *testing.T, compiled *view.Compiled, records []chunk.Record) (stream []byte, outputs [][]byte) {
	t.Helper()
	var chat []byte
	for _, rec := range records {
		if got, ok := compiled.Record(rec); ok {
			stream = append(append(stream, got.Data...), '\n')
		}
		if got, ok := compiled.Chat().Record(rec); ok {
			chat = append(append(chat, got.Data...), '\n')
		}
	}
	page, err := compiled.Snapshot(root, pageOf(t, records))
	if err != nil {
		t.Fatal(err)
	}
	chatPage, err := compiled.Chat().Page(pageOf(t, records))
	if err != nil {
		t.Fatal(err)
	}
	content := compiled.Chat().Snapshot(snapshotOf(t, records).Content(true))
	outputs = [][]byte{page, chatPage, chat, content.Run.Output}
	for _, name := range dialects.Written() {
		if dialects.HasSnapshot(name) {
			outputs = append(outputs, dialects.AppendSnapshot(name, nil, content))
		}
	}
	return stream, outputs
}

// The pages and snapshots have the names and the structure of masked inputs and results.
func TestMaskedPages(t *testing.T) {
	const value = `{"a":[{"b":"•"},true]}`
	compiled := compile(t, view.View{Preset: view.Analytics})
	records, _ := variants[1].canaries(t) // a call with a result
	_, outputs := outputsOf(t, compiled, records)
	for i, out := range outputs[:3] {
		for _, member := range []string{"input", "output", "result"} {
			if i != 2 && member == "result" && !bytes.Contains(out, []byte(`"result":`+value)) || i != 2 && member != "result" && !bytes.Contains(out, []byte(`"`+member+`":`+value)) {
				t.Errorf("output %d has no masked %s: %s", i, member, out)
			}
		}
	}
	for _, want := range []string{`"arguments":` + value, `"result":` + value, `"input":` + value} {
		if !bytes.Contains(outputs[2], []byte(want)) {
			t.Errorf("the chat has no %s: %s", want, outputs[2])
		}
	}
	asks, _ := variants[3].canaries(t) // a call that waits for an approval
	page, err := compiled.Snapshot(root, pageOf(t, asks))
	if _, pending, _ := bytes.Cut(page, []byte(`"pendingCalls":[{`)); err != nil || !bytes.Contains(pending, []byte(`"input":`+value)) {
		t.Errorf("the pending call has no masked input: %s, %v", page, err)
	}
}

// A large value of a masked member is not shown: its reference has no URL, and the edge does not serve it.
func TestMaskedLargeValues(t *testing.T) {
	masked := compile(t, view.View{Preset: view.Analytics})
	for typ, member := range map[chunk.Type]string{
		"tool_start": "arguments", "tool_end": "result", "tool_input_error": "partialInput", "tool_approval_request": "input", "subagent_end": "result",
	} {
		if masked.ShowsValue(root, typ, member) || !compile(t, view.View{Preset: view.All}).ShowsValue(root, typ, member) {
			t.Errorf("%s.%s is shown by analytics, or not by all", typ, member)
		}
	}
	if !masked.ShowsValue(root, "custom", "data") || !masked.ShowsValue(root, chunk.TypeRunStarted, "input") || masked.ShowsValue(child, chunk.TypeRunStarted, "input") {
		t.Error("analytics hides the data of custom events or the files of users, or shows the input of a sub-agent")
	}
}
