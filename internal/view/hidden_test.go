package view_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/view"
)

// A view without content hides every part, no view hides none, and a view that hides one part hides that one alone.
func TestHidden(t *testing.T) {
	if got := (*view.Chat)(nil).Hidden(); got != (view.Hidden{}) {
		t.Errorf("no view hides %+v", got)
	}
	all := reflect.ValueOf(hiddenBy(t, view.View{}))
	for i := range all.NumField() {
		if !all.Field(i).Bool() {
			t.Errorf("a view without content shows %s", all.Type().Field(i).Name)
		}
	}
	type members = map[chunk.Type][]string
	for _, tt := range []struct {
		v    view.View
		want view.Hidden
	}{
		{view.View{Hide: members{chunk.TypeRunStarted: {"input.content"}}}, view.Hidden{Contents: true}},
		{view.View{Hide: members{chunk.TypeRunStarted: {"input.metadata"}}}, view.Hidden{Metadata: true}},
		{view.View{Except: []chunk.Type{chunk.TypeTextDelta}}, view.Hidden{Texts: true}},
		{view.View{Hide: members{chunk.TypeOutput: {"output"}, chunk.TypeStreamEnd: {"finalOutput"}}}, view.Hidden{Output: true}},
		{view.View{Hide: members{chunk.TypeToolApprovalResponse: {"reason"}}}, view.Hidden{Reasons: true}},
		{view.View{Hide: members{chunk.TypeToolEnd: {"result"}, chunk.TypeSubagentEnd: {"result"}}}, view.Hidden{Results: true}},
		{view.View{Except: []chunk.Type{chunk.TypeToolArgStreamDelta}, Hide: members{
			chunk.TypeToolStart: {"arguments"}, chunk.TypeToolApprovalRequest: {"input"}, chunk.TypeToolInputError: {"partialInput"},
		}}, view.Hidden{Inputs: true}},
	} {
		tt.v.Types, tt.v.SubAgents = []chunk.Type{"*"}, true
		if got := hiddenBy(t, tt.v); got != tt.want {
			t.Errorf("%+v hides %+v, want %+v", tt.v, got, tt.want)
		}
	}
}

func hiddenBy(t *testing.T, v view.View) view.Hidden {
	t.Helper()
	c, err := v.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return c.Chat().Hidden()
}

// The type of a sub-agent whose output is hidden is shown in its own events and page only if its parent shows it.
func TestAgentTypesOfHiddenSubAgents(t *testing.T) {
	child := chunk.RootSession("acme", "s1").Child("s2")
	end, err := chunk.Chunk{AgentID: "s2", AgentType: "auditor", Body: chunk.StreamEnd{}}.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	const page = `{"messages":[],"session":{"tenant":"acme","root":"s1","id":"s2","agentType":"auditor"}}`
	for _, tt := range []struct {
		v    view.View
		want bool
	}{
		{view.View{Types: []chunk.Type{chunk.TypeTextDelta}}, false},
		{view.View{Types: []chunk.Type{"*"}, Hide: map[chunk.Type][]string{chunk.TypeSubagentEnd: {"subAgentType"}}}, false},
		{view.View{Types: []chunk.Type{"*"}, Except: []chunk.Type{chunk.TypeSubagentStart}}, false},
		{view.View{Types: []chunk.Type{"*"}}, true},
		{view.View{Types: []chunk.Type{chunk.TypeTextDelta}, SubAgents: true}, true},
	} {
		c, err := tt.v.Compile()
		if err != nil {
			t.Fatal(err)
		}
		rec, shown := c.Record(chunk.Record{Session: child, Type: chunk.TypeStreamEnd, Data: end})
		if got := strings.Contains(string(rec.Data), "auditor"); !shown || got != tt.want {
			t.Errorf("%+v shows the event %s, want the type: %t", tt.v, rec.Data, tt.want)
		}
		text, err := c.Snapshot(child, []byte(page))
		if got := strings.Contains(string(text), "auditor"); err != nil || got != tt.want {
			t.Errorf("%+v shows the page %s, %v; want the type: %t", tt.v, text, err, tt.want)
		}
	}
}
