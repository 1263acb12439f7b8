package helix_test

import (
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
)

// The end of a sub-agent ends its own stream, but not the stream of its root.
func ExampleEncode() {
	kid := chunk.RootSession("acme", "s1").Child("s1-researcher")
	rec := chunk.Record{Seq: 17, Session: kid, Type: chunk.TypeStreamEnd, Data: []byte(`{"type":"stream_end","streamId":"s1-researcher","finalOutput":42}`)}
	fmt.Printf("%q\n", helix.Encode(nil, rec, chunk.ScopeSession))
	fmt.Printf("%q\n", helix.Encode(nil, rec, chunk.ScopeTree))
	// Output:
	// "id: 17\ndata: {\"type\":\"end\",\"finalOutput\":42}\n\n"
	// ""
}
