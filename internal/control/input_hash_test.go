package control_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
)

func TestInputHash(t *testing.T) {
	const base = `{"a":1,"b":[true,null,"é"],"n":12345678901234567890}`
	for _, equal := range []string{
		` { "n" : 12345678901234567890, "b" : [ true , null , "\u00e9" ], "a" : 1.0 } `,
		`{"a":1e0,"b":[true,null,"é"],"n":12345678901234567000}`, // as JSON.stringify writes the double
	} {
		if control.InputHash(chunk.Value(equal)) != control.InputHash(chunk.Value(base)) {
			t.Errorf("%s: another hash than %s", equal, base)
		}
	}
	for _, other := range []string{
		`{"a":2,"b":[true,null,"é"],"n":12345678901234567890}`, `{"a":"1","b":[true,null,"é"],"n":12345678901234567890}`,
		`{"a":1,"b":[null,true,"é"],"n":12345678901234567890}`, `{"a":1,"b":[true,null,"e\u0301"],"n":12345678901234567890}`,
		`{"a":1,"b":[true,null,"é"]}`, `{"a":1,"b":[true,null,"é"],"n":null}`, `{}`, `null`,
	} {
		if got := control.InputHash(chunk.Value(other)); got == "" || got == control.InputHash(chunk.Value(base)) {
			t.Errorf("%s: hash %q", other, got)
		}
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{`, ``} {
		if got := control.InputHash(chunk.Value(bad)); got != "" {
			t.Errorf("%s: hash %q, want none", bad, got)
		}
	}
	if lone := control.InputHash(chunk.Value(`"\ud83d"`)); lone == "" {
		t.Error("text with half a surrogate pair has no hash")
	}
}
