package uipart_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/uipart"
)

// Members that the client rejects are not read, and the others are the same after a round trip.
func TestMembers(t *testing.T) {
	for value, want := range map[string]string{
		`{"id":"p","transient":true}`:                               `{"transient":true,"id":"p"}`,
		`{"id":7,"transient":"true","title":null}`:                  ``,
		`{"dynamic":false,"title":"T","toolMetadata":{"a":1}}`:      `{"dynamic":false,"title":"T","toolMetadata":{"a":1}}`,
		`{"dynamic":true,"toolMetadata":[1]}`:                       ``,
		`{"begins":true,"providerMetadata":{"p":{"a":"\u2028"}}}`:   `{"begins":true,"providerMetadata":{"p":{"a":"\u2028"}}}`,
		`{"providerMetadata":{"p":1}}`:                              ``,
		`{"providerMetadata":{},"other":1}`:                         `{"providerMetadata":{}}`,
		`[]`:                                                        ``,
		`{"\u0069d":"p"}`:                                           `{"id":"p"}`,
		`{"providerMetadata":{"a":{"b":[{"c":null}]},"d":{"e":2}}}`: `{"providerMetadata":{"a":{"b":[{"c":null}]},"d":{"e":2}}}`,
	} {
		m := uipart.Read(chunk.Value(value))
		got := ""
		for _, extra := range m.Extra() {
			got += string(extra.Value)
			again := uipart.Of([]chunk.Member{{Name: "other", Value: chunk.Value("1")}, extra})
			if second := again.Extra(); len(second) != 1 || string(second[0].Value) != got {
				t.Errorf("%s: %s after a round trip, want %s", value, second, got)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

func TestMerge(t *testing.T) {
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
		if got := string(uipart.Merge(old, later)); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.old, c.later, got, c.want)
		}
	}
}
