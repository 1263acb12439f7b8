package chunk_test

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// Members of the wrong type are not read, and the others are the same after a round trip.
func TestPart(t *testing.T) {
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
		m := chunk.PartOf([]chunk.Member{{Name: chunk.PartMember, Value: chunk.Value(value)}})
		got := ""
		for _, extra := range m.Extra() {
			got += string(extra.Value)
			again := chunk.PartOf([]chunk.Member{{Name: "other", Value: chunk.Value("1")}, extra})
			if second := again.Extra(); len(second) != 1 || string(second[0].Value) != got {
				t.Errorf("%s: %s after a round trip, want %s", value, second, got)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}
