package view_test

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/view"
)

// A part of a call has one form in a page and in the stream, and what the chunk schema does not have is shown only with Extra. A hidden name of a tool is not in the type.
func TestMembersOfParts(t *testing.T) {
	var records []chunk.Record
	for i, data := range []string{
		`{"type":"run_started","agentId":"r","agentType":"a","timestamp":0,"step":0,"runId":"r1","epoch":1,"mode":"execute","input":[{"content":"Hi"}]}`,
		`{"type":"text_delta","agentId":"r","agentType":"a","timestamp":0,"step":1,"delta":"A","part":{"providerMetadata":{"p":{"secret":"text"}}}}`,
		`{"type":"text_delta","agentId":"r","agentType":"a","timestamp":0,"step":1,"delta":"B","part":{"begins":true}}`,
		`{"type":"tool_start","agentId":"r","agentType":"a","timestamp":0,"step":1,"toolCallId":"c","toolName":"look","arguments":{},"part":{"dynamic":false,"title":"secret title"}}`,
		`{"type":"tool_end","agentId":"r","agentType":"a","timestamp":0,"step":1,"toolCallId":"c","toolName":"look","result":1,"part":{"providerMetadata":{"p":{"secret":"result"}}}}`,
		`{"type":"custom","agentId":"r","agentType":"a","timestamp":0,"step":1,"eventName":"message-metadata","data":{"type":"message-metadata","messageMetadata":{"secret":"event"}}}`,
	} {
		c, err := chunk.Decode([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		rec := record(root, c.Type(), []byte(data))
		rec.Seq, rec.Ordinal, rec.Epoch = chunk.Seq(i+1), chunk.Ordinal(i+1), 1
		records = append(records, rec)
	}
	hide := make(map[chunk.Type][]string)
	for _, typ := range []chunk.Type{"tool_start", "tool_arg_stream_start", "tool_end", "tool_approval_request", "tool_approval_response", "tool_input_error", "tool_output_error"} {
		hide[typ] = []string{"toolName"}
	}
	for name, c := range map[string]struct {
		view  view.View
		shown []string // in the page and in the stream
		kind  string   // of the call in the page
	}{
		"everything":       {view.View{Types: []chunk.Type{"*"}, Extra: true}, []string{`"secret":"text"`, "secret title", `"secret":"result"`, `"secret":"event"`}, `"type":"tool-look"`},
		"without Extra":    {view.View{Types: []chunk.Type{"*"}}, []string{`"secret":"event"`}, `"type":"tool-look"`},
		"without events":   {view.View{Types: []chunk.Type{"*"}, Except: []chunk.Type{"custom"}}, nil, `"type":"tool-look"`},
		"without the name": {view.View{Types: []chunk.Type{"*"}, Hide: hide}, []string{`"secret":"event"`}, `"type":"dynamic-tool","toolName":""`},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := c.view.Compile()
			if err != nil {
				t.Fatal(err)
			}
			page, err := compiled.Snapshot(root, pageOf(t, records))
			if err != nil {
				t.Fatal(err)
			}
			stream := ""
			for _, rec := range records {
				if shown, ok := compiled.Record(rec); ok {
					stream += string(shown.Data) + "\n"
				}
			}
			for _, secret := range []string{`"secret":"text"`, "secret title", `"secret":"result"`, `"secret":"event"`} {
				want := false
				for _, s := range c.shown {
					want = want || s == secret
				}
				for where, text := range map[string]string{"page": string(page), "stream": stream} {
					if got := strings.Contains(text, secret); got != want {
						t.Errorf("%s of the %s is shown: %v, want %v\n%s", secret, where, got, want, text)
					}
				}
			}
			for _, want := range []string{`"begins":true`, `"dynamic":false`} {
				if !strings.Contains(stream, want) {
					t.Errorf("the stream has no %s: %s", want, stream)
				}
			}
			if !strings.Contains(string(page), c.kind) || strings.Contains(c.kind, "dynamic") && strings.Contains(string(page), "look") {
				t.Errorf("the page has no %s: %s", c.kind, page)
			}
		})
	}
}
