package view_test

import (
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/view"
)

// A customer sees that a tool is running, not its arguments.
func ExampleEncodings() {
	views, err := view.Read(strings.NewReader(`{"views": {"customer": {"preset": "public"}}, "default": "customer"}`))
	if err != nil {
		panic(err)
	}
	name, _ := views.Select("") // the request names none
	encode := view.Encodings(views, helix.Encode)[name]
	rec := chunk.Record{
		Seq: 17, Session: chunk.RootSession("acme", "s1"), Type: chunk.TypeToolStart,
		Data: []byte(`{"type":"tool_start","agentId":"s1","agentType":"clerk","timestamp":1,"toolCallId":"c1","toolName":"refund","arguments":{"account":"DE02"}}`),
	}
	fmt.Printf("%s", encode(nil, rec, chunk.ScopeTree))
	// Output:
	// id: 17
	// data: {"type":"chunk","chunk":{"type":"tool_start","agentId":"s1","agentType":"clerk","timestamp":1,"toolCallId":"c1","toolName":"refund","arguments":{}},"sequence":17}
}
