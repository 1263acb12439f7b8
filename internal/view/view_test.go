package view_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/view"
)

// A rule that would hide less than its author expects is an error.
func TestViewsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ views, want string }{
		{`{`, "views:"},
		{`{"views":{"v":{"hidden":{}}}}`, "unknown"},
		{`{"views":{"v":{}},"views":{}}`, "duplicate"},
		{`{"views":{"v":{"hide":{"error":["error"],"error":["code"]}}}}`, "duplicate"},
		{`{"views":{}} {}`, "after top-level value"},
		{`{"views":{"a b":{}}}`, "view"},
		{`{"views":{"":{}}}`, "view"},
		{`{"views":{"v":{"preset":"Public"}}}`, `preset "Public": want one of ["all" "analytics" "none" "public"]`},
		{`{"views":{"v":{"except":["thinkng"]}}}`, `unknown type "thinkng"`},
		{`{"views":{"v":{"hide":{"tool_begin":["arguments"]}}}}`, `unknown type "tool_begin"`},
		{`{"views":{"v":{"hide":{"tool_start":["argments"]}}}}`, "no such member in the chunk schema"},
		{`{"views":{"v":{"hide":{"error":["errorDetail.couse"]}}}}`, "no such member in the chunk schema"},
		{`{"views":{"v":{"hide":{"*":["argments"]}}}}`, "no such member in the chunk schema"},
		{`{"views":{"v":{"hide":{"error":["errorDetail.cause.x"]}}}}`, "has no members"},
		{`{"views":{"v":{"hide":{"tool_start":["toolCallId"]}}}}`, `"toolCallId" cannot be hidden`},
		{`{"views":{"v":{"types":["*"],"hide":{"*":["agentId"]}}}}`, `"agentId" cannot be hidden`},
		{`{"views":{"v":{"hide":{"tool_approval_response":["approved"]}}}}`, `"approved" cannot be hidden`},
		{`{"views":{"v":{"hide":{"suspension_marker":["kind"]}}}}`, `"kind" cannot be hidden`},
		{`{"views":{"v":{"hide":{"stream_end":["streamId"]}}}}`, `"streamId" cannot be hidden`},
		{`{"views":{"v":{"hide":{"custom":["data..a"]}}}}`, "want the names of members"},
		{`{"views":{"v":{"hide":{"custom":[""]}}}}`, "want the names of members"},
		{`{"views":{"v":{"hide":{"state_patch":["patches.value"]}}}}`, "cannot hide a part of a patch"},
		{`{"views":{"v":{"types":["*"],"hide":{"tool_start":["arguments"]}}}}`, "hides tool_start.arguments and shows the same in tool_approval_request.input"},
		{`{"views":{"v":{"types":["tool_start","tool_arg_stream_delta"],"hide":{"tool_start":["arguments.password"]}}}}`, "shows the same in tool_arg_stream_delta.delta"},
		{`{"views":{"v":{"types":["*"],"hide":{"output":["output"]}}}}`, "shows the same in stream_end.finalOutput"},
		{`{"views":{"v":{"types":["*"],"hide":{"tool_end":["result.a"],"subagent_end":["result.b"]}}}}`, "hides subagent_end.result and shows the same in tool_end.result"},
		{`{"views":{"v":{"types":["*"],"hide":{"error":["errorDetail.cause"],"stream_failed":["errorDetail.code"]}}}}`, "shows the same in"},
		{`{"views":{"v":{"mask":{"tool_begin":["arguments"]}}}}`, `unknown type "tool_begin"`},
		{`{"views":{"v":{"mask":{"tool_start":["argments"]}}}}`, "no such member in the chunk schema"},
		{`{"views":{"v":{"mask":{"*":["argments"]}}}}`, "no such member in the chunk schema"},
		{`{"views":{"v":{"mask":{"tool_start":["arguments..a"]}}}}`, "want the names of members"},
		{`{"views":{"v":{"mask":{"tool_start":["toolName"]}}}}`, `"toolName" cannot be masked: want a member with a value of any form`},
		{`{"views":{"v":{"mask":{"tool_start":["toolName.a"]}}}}`, `"toolName" has no members`},
		{`{"views":{"v":{"mask":{"text_delta":["delta"]}}}}`, `"delta" cannot be masked`},
		{`{"views":{"v":{"mask":{"tool_arg_stream_delta":["delta"]}}}}`, `"delta" cannot be masked`},
		{`{"views":{"v":{"mask":{"step_end":["usage"]}}}}`, `"usage" cannot be masked`},
		{`{"views":{"v":{"mask":{"step_end":["usage.inputTokens"]}}}}`, `"inputTokens" cannot be masked`},
		{`{"views":{"v":{"mask":{"run_started":["input"]}}}}`, `"input" cannot be masked`},
		{`{"views":{"v":{"mask":{"state_patch":["patches.value"]}}}}`, "cannot hide a part of a patch"},
		{`{"views":{"v":{"types":["*"],"mask":{"tool_start":["arguments"]}}}}`, "masks tool_start.arguments and shows the same in tool_approval_request.input"},
		{`{"views":{"v":{"types":["*"],"mask":{"tool_start":["arguments"],"tool_approval_request":["input"],"tool_input_error":["partialInput"]}}}}`, "shows the same in tool_arg_stream_delta.delta"},
		{`{"views":{"v":{"types":["tool_end","subagent_end"],"mask":{"tool_end":["result"]},"hide":{"subagent_end":["result.a"]}}}}`, "masks tool_end.result and shows the same in subagent_end.result"},
		{`{"views":{"v":{"types":["tool_end","subagent_end"],"mask":{"tool_end":["result.a"],"subagent_end":["result.b"]}}}}`, "shows the same in"},
		{`{"views":{"v":{"preset":"analytics","types":["output"],"mask":{"output":["output"]}}}}`, "masks output.output and shows the same in stream_end.finalOutput"},
		{`{"views":{"v":{}},"default":"w"}`, `unknown view "w"`},
		{`{"views":{"v":{}},"default":"v","selectable":["w"]}`, `unknown view "w"`},
		{`{"views":{"v":{}},"selectable":["v"]}`, "selectable without a default"},
	} {
		_, err := view.Read(strings.NewReader(tt.views))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\n%v, want %q", tt.views, err, tt.want)
		}
	}
}

// With a default, a client does not see more if it leaves out the parameter or names a view that is not selectable.
func TestChoose(t *testing.T) {
	three := map[string]view.View{"public": {Preset: view.Public}, "staff": {Types: []chunk.Type{"*"}}, "audit": {}}
	for _, tt := range []struct {
		name string
		cfg  *view.Config // nil: without views
		want map[string]string
	}{
		{"no views", nil, map[string]string{"": "", "public": "no"}},
		{"without a default", &view.Config{Views: three}, map[string]string{"": "", "public": "public", "staff": "staff", "other": "no"}},
		{"with a default", &view.Config{Views: three, Default: "public"}, map[string]string{"": "public", "public": "public", "staff": "no", "other": "no"}},
		{"with a choice", &view.Config{Views: three, Default: "public", Selectable: []string{"staff"}}, map[string]string{"": "public", "staff": "staff", "audit": "no", "Public": "no"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var views *view.Views
			if tt.cfg != nil {
				var err error
				if views, err = view.New(*tt.cfg); err != nil {
					t.Fatal(err)
				}
			}
			for asked, want := range tt.want {
				got, allowed := views.Select(asked)
				if !allowed {
					got = "no"
				}
				if got != want {
					t.Errorf("%q gets %q, want %q", asked, got, want)
				}
			}
		})
	}
}

// A view is an encoding of the hub: the frame of the shown part, or none.
func TestEncodings(t *testing.T) {
	views, err := view.Read(strings.NewReader(`{"views":{"quiet":{"types":["text_delta"]},"empty":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	encodings := view.Encodings(views, helix.Encode)
	if !slices.Equal(slices.Sorted(maps.Keys(encodings)), []string{"empty", "quiet"}) {
		t.Errorf("encodings of %q", slices.Collect(maps.Keys(encodings)))
	}
	for typ, want := range map[chunk.Type]string{
		chunk.TypeTextDelta: "id: 7\ndata: {\"type\":\"chunk\",\"chunk\":{\"type\":\"text_delta\",\"agentId\":\"a\",\"agentType\":\"\",\"timestamp\":1,\"delta\":\"x\"},\"sequence\":7}\n\n",
		chunk.TypeThinking:  "",
		chunk.TypeStreamEnd: "id: 7\ndata: {\"type\":\"end\"}\n\n",
	} {
		data := `{"type":"` + string(typ) + `","agentId":"a","agentType":"","timestamp":1,"delta":"x"}`
		if typ == chunk.TypeStreamEnd {
			data = `{"type":"stream_end","agentId":"a","agentType":"","timestamp":1,"streamId":"s","finalOutput":"x"}`
		}
		if got := encodings["quiet"](nil, record(root, typ, []byte(data)), chunk.ScopeTree); string(got) != want {
			t.Errorf("%s: %q, want %q", typ, got, want)
		}
	}
	if view.Encodings(nil, helix.Encode) != nil {
		t.Error("encodings of no views")
	}
}

// The file in docs/guides/views.md is valid.
func TestDocumentedFile(t *testing.T) {
	doc, err := os.ReadFile("../../docs/guides/views.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```json\n")
	text, _, _ := strings.Cut(rest, "```")
	views, err := view.Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if name, allowed := views.Select(""); name != "customer" || !allowed {
		t.Errorf("the default is %q", name)
	}
}
