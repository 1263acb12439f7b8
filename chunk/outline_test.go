package chunk

import (
	"reflect"
	"strings"
	"testing"
)

// What is read in one pass is read as trace and checkGrammar read it, and nothing
// is that they refuse.
func FuzzPlainOutline(f *testing.F) {
	for _, seed := range []string{
		`{"type":"tool_start","agentId":"s","toolCallId":"c","arguments":{"a":[1,{"b":null}],"c":"\ud83d\ude00"}}`,
		" {\"a\" : 1 ,\n\"b\":[ ],\"c\":{ }\t}\r", `{"a":{"b":1,"b":2}}`, `{"a":"\ud83d"}`, `{"\u0061":1}`, `[1]`, `{"a":1}{}`, "{\"a\":\"\xff\"}",
		`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, `{"` + strings.Repeat("n", 200) + `":0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = trimSpace(text)
		got, ok := plainOutline(text, nil)
		if !ok {
			return
		}
		want, err := trace(text, nil)
		if err == nil {
			err = checkGrammar(text, want.loneEscape)
		}
		if err != nil || text[0] != '{' {
			t.Fatalf("%q: %v", text, err)
		}
		want.plain = true
		if len(got.members)+len(want.members) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %+v, want %+v", text, got, want)
		}
	})
}
