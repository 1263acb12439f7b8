package chunk_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

func TestMembers(t *testing.T) {
	var m chunk.Members
	for _, text := range []string{
		`{"type":"step_end","agentId":"s","agentType":"\ud83da","timestamp":1,"usage":{"inputTokens":1e2,"outputTokens":2,"x":{"y":" z"}},"extra":[1, 2]}`,
		"{\"type\":\"step_end\",\n\"agentId\":\"s\",\"agentType\":\"\\ud83da\",\"timestamp\":1,\"us\\u0061ge\":{\"input\\u0054okens\" :\n1e2,\"outputTokens\":2,\"x\":{\"y\":\" z\"}},\"extra\":[1, 2]}",
	} {
		if err := m.Read([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if typ, known := m.Type(); typ != chunk.TypeStepEnd || !known {
			t.Errorf("type %s, known %v", typ, known)
		}
		for _, tt := range []struct {
			path       []string
			json, text string
		}{
			{[]string{"agentType"}, `"\ud83da"`, "\xed\xa0\xbda"},
			{[]string{"timestamp"}, "1", ""},
			{[]string{"usage", "inputTokens"}, "1e2", ""},
			{[]string{"usage", "x", "y"}, `" z"`, " z"},
			{[]string{"usage", "y"}, "", ""},
			{[]string{"extra", "y"}, "", ""},
			{[]string{"step"}, "", ""},
		} {
			if got := m.Get(tt.path[0], tt.path[1:]...); string(got) != tt.json || (got == nil) != (tt.json == "") {
				t.Errorf("%v of %s is %q", tt.path, text, string(got))
			}
			if got := m.Text(tt.path[0], tt.path[1:]...); got != tt.text {
				t.Errorf("%v of %s means %q", tt.path, text, got)
			}
		}
	}
	if err := m.Read([]byte(`{"type":"new","agentId":"s"}`)); err != nil {
		t.Fatal(err)
	}
	if typ, known := m.Type(); typ != "new" || known {
		t.Errorf("type %s, known %v", typ, known)
	}
	if err := m.Read([]byte(`{"type":"step_end","agentId":"s"}`)); err == nil || m.Get("type") != nil {
		t.Errorf("error %v, and a type %s", err, m.Get("type"))
	}
}

// Repeated reads of members allocate nothing.
func TestMembersAllocateNothing(t *testing.T) {
	var m chunk.Members
	text := []byte(`{"type":"tool_end","agentId":"s","agentType":"a","timestamp":1,"step":1,"toolCallId":"c","toolName":"t","result":{"a":[1,2,{"b":null}]},"providerExecuted":true}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := m.Read(text); err != nil || len(m.Get("result")) == 0 {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
