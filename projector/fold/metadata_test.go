package fold

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

func TestMergeMetadata(t *testing.T) {
	for _, c := range []struct{ old, later, want string }{
		{``, `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, ``, `{"a":1}`},
		{`{"a":{"b":1,"c":[1]},"d":1}`, `{"a":{"c":[2],"e":null},"f":{}}`, `{"a":{"b":1,"c":[2],"e":null},"d":1,"f":{}}`},
		{`{"a":{"b":1}}`, `{"a":2}`, `{"a":2}`},
		{`{"a":2}`, `{"\u0061":{"b":1}}`, `{"a":{"b":1}}`},
	} {
		var old, later chunk.Value
		if c.old != "" {
			old = chunk.Value(c.old)
		}
		if c.later != "" {
			later = chunk.Value(c.later)
		}
		if got := string(MergeMetadata(old, later)); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.old, c.later, got, c.want)
		}
	}
}
