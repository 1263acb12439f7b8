package chunk_test

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// Decode a chunk and switch on its type.
func ExampleDecode() {
	lines := []string{
		`{"type":"text_delta","agentId":"s1","agentType":"planner","timestamp":1767225600000,"step":1,"delta":"Hello"}`,
		`{"type":"tool_start","agentId":"s1","agentType":"planner","timestamp":1767225600001,"toolCallId":"c1","toolName":"search","arguments":{"q":"rain"}}`,
		`{"type":"hologram_frame","agentId":"s1","frame":1}`,
		`{"type":"text_delta","agentId":"s1","agentType":"planner","timestamp":1767225600002,"delta":7}`,
	}
	for _, line := range lines {
		c, err := chunk.Decode([]byte(line))
		if bad, ok := errors.AsType[*chunk.FieldError](err); ok {
			fmt.Println("refused:", bad.Field, "in", bad)
			continue
		}
		switch b := c.Body.(type) {
		case chunk.TextDelta:
			fmt.Println("text:", b.Delta)
		case chunk.ToolStart:
			fmt.Println("calls", b.ToolName, "with", b.Arguments)
		default: // unknown to this build: keep the position, show nothing
			fmt.Println("kept:", c.Type())
		}
	}
	// Output:
	// text: Hello
	// calls search with {"q":"rain"}
	// kept: hologram_frame
	// refused: delta in text_delta.delta: want a string, got the number 7
}

// Build and encode a chunk.
func ExampleChunk_AppendJSON() {
	input, err := chunk.ValueOf(map[string]any{"city": "Oslo"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := chunk.Chunk{
		AgentID: "s1", AgentType: "planner", Timestamp: 1767225600000, Step: 1,
		Body: chunk.ToolStart{ToolCallID: "c1", ToolName: "weather", Arguments: input},
	}
	text, err := c.AppendJSON(nil)
	fmt.Println(string(text), err)
	// Output:
	// {"type":"tool_start","agentId":"s1","agentType":"planner","timestamp":1767225600000,"step":1,"toolCallId":"c1","toolName":"weather","arguments":{"city":"Oslo"}} <nil>
}

// Two halves of an emoji, split by a producer that counts UTF-16 units, become one character when their deltas are merged.
func ExampleMerge() {
	read := func(delta string) chunk.Chunk {
		c, err := chunk.Decode([]byte(`{"type":"text_delta","agentId":"s1","agentType":"planner","timestamp":0,"delta":"` + delta + `"}`))
		if err != nil {
			fmt.Println(err)
		}
		return c
	}
	both, ok := chunk.Merge(read(`smile \ud83d`), read(`\ude00`))
	text, _ := chunk.As[chunk.TextDelta](both)
	fmt.Println(text.Delta, ok)
	// Output:
	// smile 😀 true
}
