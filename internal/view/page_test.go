package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestPresets documents the presets: the parts of a chunk of each type, with all its members, that each shows, and of the page of a session with all these chunks.
func TestPresets(t *testing.T) {
	for _, name := range []string{view.Public, view.Analytics, view.None, view.All} {
		t.Run(name, func(t *testing.T) { checkPreset(t, name) })
	}
}

func checkPreset(t *testing.T, name string) {
	t.Helper()
	file := "testdata/" + name + ".txtar"
	golden, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	compiled := compile(t, view.View{Preset: name})
	var chunks []byte
	for _, rec := range session(t, nil, nil) {
		if got, shown := compiled.Record(rec); shown {
			chunks = append(append(chunks, got.Data...), '\n')
		}
	}
	page, err := compiled.Snapshot(root, pageOf(t, session(t, nil, nil)))
	if err != nil {
		t.Fatal(err)
	}
	got := []txtar.File{{Name: "chunks.jsonl", Data: chunks}, {Name: "page.json", Data: append(page, '\n')}}
	if *update {
		golden.Files = got
		if err := os.WriteFile(file, txtar.Format(golden), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range golden.Files {
		if !bytes.Equal(want.Data, got[i].Data) {
			t.Errorf("%s\ngot\n%s\nwant\n%s", want.Name, got[i].Data, want.Data)
		}
	}
}

// session returns a record of every type, except the types in without, in an order that a session can have.
func session(t *testing.T, without []chunk.Type, change func(typ chunk.Type, data []byte) []byte) []chunk.Record {
	t.Helper()
	types := slices.DeleteFunc(chunktest.Types(), func(typ chunk.Type) bool {
		return typ == chunk.TypeTruncated || typ == chunk.TypeRunStarted || slices.Contains(without, typ)
	})
	var records []chunk.Record
	for i, typ := range append([]chunk.Type{chunk.TypeRunStarted}, types...) {
		data := fullOf(t, typ)
		if typ == chunk.TypeStatePatch {
			data = bytes.ReplaceAll(data, data[bytes.Index(data, []byte(`[`)):bytes.LastIndexByte(data, ']')+1],
				[]byte(`[{"op":"add","path":"/draft","value":{"n":1}}]`))
		}
		if change != nil {
			data = change(typ, data)
		}
		rec := record(root, typ, data)
		rec.Seq, rec.Ordinal, rec.Epoch = chunk.Seq(i+1), chunk.Ordinal(i+1), 1
		records = append(records, rec)
	}
	return records
}

func pageOf(t *testing.T, records []chunk.Record) []byte {
	t.Helper()
	return aisdk.Snapshot(snapshotOf(t, records), aisdk.SnapshotOptions{Partial: true, Timestamp: 17}).AppendJSON(nil)
}

func snapshotOf(t *testing.T, records []chunk.Record) fold.Snapshot {
	t.Helper()
	f := fold.New(root)
	for _, rec := range records {
		if err := f.Apply(rec); errors.Is(err, fold.ErrInvalidRecord) {
			t.Fatalf("%s: %v", rec.Data, err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return f.Snapshot()
}

// ids matches ids whose value does not link chunks in the fold of a session.
var ids = regexp.MustCompile(`"(checkpointId|runId|sourceId|approvalId|streamId)":"[^"]*"`)

var token = regexp.MustCompile(`tok[0-9]+x`)

// A page has no text that the stream does not have, for any session and any view. Each text is a token of its own.
func TestPageShowsNoMoreThanTheStream(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		variant := variant{succeeds: rapid.Bool().Draw(rt, "succeeds"), asks: rapid.Bool().Draw(rt, "asks")}
		variant.without = rapid.SliceOfDistinct(rapid.SampledFrom(chunk.Types()), rapid.ID[chunk.Type]).Draw(rt, "without")
		if rapid.Bool().Draw(rt, "open") {
			variant.without = append(variant.without, chunk.TypeStreamEnd, chunk.TypeStreamFailed)
		}
		compiled, err := drawView(rt).Compile()
		if err != nil {
			return // the view would hide a value in one place and show it in another
		}
		if more := findLeak(t, compiled, variant.records(t)); more != "" {
			rt.Fatal(more)
		}
	})
}

// As TestPageShowsNoMoreThanTheStream, for each type and each member by itself, and for members of several types that have the same value.
func TestPagesWithOneThingHidden(t *testing.T) {
	var all []view.View
	for _, typ := range chunk.Types() {
		all = append(all, view.View{Types: []chunk.Type{"*"}, Except: []chunk.Type{typ}})
		hideable(chunk.Schema(typ), "", func(path string, _ chunk.MemberSchema) {
			if typ != chunk.TypeStatePatch || path == "patches" {
				all = append(all, view.View{Types: []chunk.Type{"*"}, Hide: map[chunk.Type][]string{typ: {path}}})
			}
		})
	}
	for _, hide := range []map[chunk.Type][]string{
		{"tool_start": {"arguments"}, "tool_arg_stream_delta": {"delta"}, "tool_approval_request": {"input"}, "tool_input_error": {"partialInput"}},
		{"tool_end": {"result"}, "subagent_end": {"result"}},
		{"tool_end": {"error"}, "tool_input_error": {"error"}, "tool_output_error": {"error"}},
		{"error": {"error"}, "stream_failed": {"error"}},
		{"error": {"errorDetail"}, "stream_failed": {"errorDetail"}},
	} {
		all = append(all, view.View{Types: []chunk.Type{"*"}, Hide: hide})
	}
	for _, variant := range variants {
		records := variant.records(t)
		for _, v := range all {
			compiled, err := v.Compile()
			if err != nil {
				continue // the view hides a value in one place and shows it in another
			}
			if more := findLeak(t, compiled, records); more != "" {
				t.Errorf("except %s, hide %v: %s", v.Except, v.Hide, more)
			}
		}
	}
}

// findLeak describes a token that a page has, in one of its forms, and the stream does not have, "" if there is none.
func findLeak(t *testing.T, compiled *view.Compiled, records []chunk.Record) string {
	t.Helper()
	var stream []byte
	for _, rec := range records {
		got, _ := compiled.Record(rec)
		stream = append(append(stream, got.Data...), '\n')
	}
	page, err := compiled.Snapshot(root, pageOf(t, records))
	if err != nil {
		t.Fatal(err)
	}
	pages := [][]byte{page}
	content := compiled.Chat().Snapshot(snapshotOf(t, records).Content(true))
	for _, name := range dialects.Written() {
		if dialects.HasSnapshot(name) {
			pages = append(pages, dialects.AppendSnapshot(name, nil, content))
		}
	}
	for _, page := range pages {
		for _, tok := range token.FindAll(page, -1) {
			if !bytes.Contains(stream, tok) {
				return fmt.Sprintf("the page has %s, which the stream does not have:\n%s\n\n%s", tok, page, stream)
			}
		}
	}
	return ""
}

// The pages of these tests have a token in every member.
func TestPagesShowEveryMember(t *testing.T) {
	shown := make(map[string]bool)
	for _, variant := range variants {
		page, err := compile(t, everything()).Snapshot(root, pageOf(t, variant.records(t)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tokenMember.FindAllSubmatch(page, -1) {
			shown[string(m[1])] = true
		}
		_, pending, _ := bytes.Cut(page, []byte(`"pendingCalls":[{`))
		shown["pendingCalls"] = shown["pendingCalls"] || token.Match(pending)
	}
	for _, member := range []string{
		"text", "input", "output", "rawInput", "errorText", "toolName", "result", "reason", "pendingCalls",
		"approvalId", "checkpointId", "runId", "message", "data", "url", "title", "filename", "mediaType",
	} {
		if !shown[member] {
			t.Errorf("no page has a token in %s", member)
		}
	}
}

// variant selects the records of a session: all types but those in without.
type variant struct {
	succeeds bool // the tool does not fail
	asks     bool // the approval is requested from the user
	without  []chunk.Type
}

// variants fill together every member of a page.
var variants = []variant{
	{},
	{succeeds: true, without: []chunk.Type{chunk.TypeStreamEnd}},
	{without: []chunk.Type{chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeToolStart, chunk.TypeToolEnd}},
	{asks: true, without: []chunk.Type{chunk.TypeStreamEnd, chunk.TypeStreamFailed, chunk.TypeToolApprovalResponse}},
}

var toolError = regexp.MustCompile(`"error":"[^"]*",`)

// records returns the records of the session, with a token in every member.
func (p variant) records(t *testing.T) []chunk.Record {
	t.Helper()
	n := 0
	return session(t, p.without, func(typ chunk.Type, data []byte) []byte {
		hideable(chunk.Schema(typ), "", func(path string, s chunk.MemberSchema) {
			if s.Members == nil && typ != chunk.TypeStatePatch {
				n++
				data = plant(t, data, strings.Split(path, "."), s, fmt.Sprintf("tok%dx", n))
			}
		})
		if typ == chunk.TypeToolEnd && p.succeeds {
			data = toolError.ReplaceAll(data, nil)
		}
		if p.asks {
			data = bytes.ReplaceAll(data, []byte(`"isAutomatic":true`), []byte(`"isAutomatic":false`))
		}
		data = ids.ReplaceAllFunc(data, func(member []byte) []byte {
			n++
			name, _, _ := bytes.Cut(member, []byte(":"))
			return fmt.Appendf(nil, `%s:"tok%dx"`, name, n)
		})
		return bytes.ReplaceAll(data, []byte(`"n":1`), []byte(`"n":"tok0x"`))
	})
}

var tokenMember = regexp.MustCompile(`"([a-zA-Z]+)":(?:\{"deep":\[\{)?"[^"]*tok[0-9]+x`)

// drawView draws a view: all types or some, with some members hidden.
func drawView(t *rapid.T) view.View {
	types := chunk.Types()
	v := view.View{
		Types:     []chunk.Type{"*"},
		Except:    rapid.SliceOfDistinct(rapid.SampledFrom(types), rapid.ID[chunk.Type]).Draw(t, "except"),
		Hide:      map[chunk.Type][]string{},
		SubAgents: rapid.Bool().Draw(t, "subAgents"),
		Extra:     rapid.Bool().Draw(t, "extra"),
	}
	for _, typ := range rapid.SliceOfN(rapid.SampledFrom(types), 0, 6).Draw(t, "hide") {
		hideable(chunk.Schema(typ), "", func(path string, _ chunk.MemberSchema) {
			if (typ != chunk.TypeStatePatch || path == "patches") && rapid.Bool().Draw(t, path) {
				v.Hide[typ] = append(v.Hide[typ], path)
			}
		})
	}
	return v
}

// A view that shows everything leaves a page unchanged, except the counts of unreadable records; a view that shows nothing leaves the position.
func TestPages(t *testing.T) {
	page := pageOf(t, session(t, nil, nil))
	whole, err := compile(t, everything()).Snapshot(root, page)
	if err != nil || !bytes.Equal(whole, page) {
		t.Errorf("%v\n%s\nbecame\n%s", err, page, whole)
	}
	for _, v := range []view.View{{}, {Types: []chunk.Type{"*"}}} {
		s := root
		if len(v.Types) > 0 {
			s = child // it does not show the output of sub-agents
		}
		got, err := compile(t, v).Snapshot(s, page)
		want := `"messages":[],"streamSequence":36,"status":"ended","checkpointId":null,"timestamp":17,` +
			`"session":{"tenant":"acme","root":"root","id":"root","agentType":"planner"},"children":[],"pendingCalls":[],"usage":{}}`
		if err != nil || string(got) != `{"state":null,`+want {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
	for _, hostile := range []string{``, `{`, `{"messages":[{"role":"user"`, `{"messages":`} {
		if got, err := compile(t, view.View{}).Snapshot(root, []byte(hostile)); err == nil {
			t.Errorf("page %s became %s", hostile, got)
		}
	}
}

func TestMessage(t *testing.T) {
	compiled := compile(t, view.View{Types: []chunk.Type{chunk.TypeTextDelta}})
	for message, want := range map[string]string{
		`{"id":"m","role":"assistant","parts":[{"type":"reasoning","text":"a"},{"type":"text","text":"b"}],"metadata":{}}`: `{"id":"m","role":"assistant","parts":[{"type":"text","text":"b"}]}`,
		`{"id":"m","role":"assistant","parts":[{"type":"reasoning","text":"a"}]}`:                                          ``,
		`{"id":"m","role":"assistant","parts":[{"type":"hologram","text":"a"},"text"]}`:                                    ``,
		`{"id":"m","role":"user","parts":[{"type":"text","text":"a"}]}`:                                                    ``,
		`{"id":"m","role":"system","parts":[{"type":"text","text":"a"}]}`:                                                  ``,
		`"text"`: ``,
		``:       ``,
	} {
		got, shown, err := compiled.Message(root, []byte(message))
		if err != nil || shown != (want != "") || shown && string(got) != want {
			t.Errorf("%s\nis %s, %t, %v\nwant %s", message, got, shown, err, want)
		}
	}
}

// FuzzPage checks that the result is JSON if the page is JSON.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","parts":[{"type":"text"}]}],"children":{"a":1},"pendingCalls":[[{"kind":"approval"}]]}`))
	f.Add([]byte(`{"messages":["role","user"],"session":"s","state":{"a":1},"error":[{"a":2}]}`))
	all := []*view.Compiled{compile(f, view.View{}), compile(f, view.View{Preset: view.Public}), compile(f, everything())}
	f.Fuzz(func(t *testing.T, page []byte) {
		for _, compiled := range all {
			got, err := compiled.Snapshot(root, page)
			if err == nil && json.Valid(page) && !json.Valid(got) {
				t.Fatalf("%q became %q", page, got)
			}
		}
	})
}
