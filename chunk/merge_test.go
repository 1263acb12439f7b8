package chunk_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// Concat does what + does in JavaScript, code unit by code unit.
func TestConcatJoinsCodeUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := chunktest.Texts().Draw(t, "a"), chunktest.Texts().Draw(t, "b")
		if got, want := units(t, chunk.Concat(a, b)), units(t, a)+units(t, b); got != want {
			t.Fatalf("Concat(%q, %q) has the units %s, want %s", a, b, got, want)
		}
	})
}

// units returns the code units of a WTF-8 string, read from its JSON.
func units(t failer, s string) jsonString {
	t.Helper()
	text, err := chunktest.Of(chunk.TextDelta{Delta: s}).AppendJSON(nil)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return mustParse(t, text).(jsonObject)[key("delta")].(jsonString)
}

// An emoji that is split anywhere is complete after Concat.
func TestConcatJoinsASplitEmoji(t *testing.T) {
	for _, char := range []rune{'😀', 0x10000, 0x10FFFF} {
		emoji := string(char)
		high, low := utf16.EncodeRune(char)
		a, b := "x"+surrogate(high), surrogate(low)+"y"
		if got := chunk.Concat(a, b); got != "x"+emoji+"y" {
			t.Errorf("Concat(%q, %q) = %q", a, b, got)
		}
		if got := chunk.Concat(b, a); got != b+a {
			t.Errorf("Concat(%q, %q) = %q: wrong halves were joined", b, a, got)
		}
	}
}

func surrogate(u rune) string {
	return string([]byte{0xED, byte(0x80 | u>>6&0x3F), byte(0x80 | u&0x3F)})
}

func TestMerge(t *testing.T) {
	text := func(s string) chunk.Chunk { return chunktest.Of(chunk.TextDelta{Delta: s}) }
	thought := func(s string, complete bool) chunk.Chunk {
		return chunktest.Of(chunk.Thinking{Content: s, IsComplete: complete})
	}
	args := func(call, s string) chunk.Chunk {
		return chunktest.Of(chunk.ToolArgStreamDelta{ToolCallID: call, Delta: s})
	}
	but := func(c chunk.Chunk, change func(*chunk.Chunk)) chunk.Chunk {
		change(&c)
		return c
	}
	later := but(text("b"), func(c *chunk.Chunk) { c.Timestamp += 99 })
	tests := []struct {
		name string
		a, b chunk.Chunk
		want chunk.Body // nil: not merged
	}{
		{"text", text("a"), later, chunk.TextDelta{Delta: "ab"}},
		{"halves of an emoji", text("\xed\xa0\xbd"), text("\xed\xb8\x80"), chunk.TextDelta{Delta: "😀"}},
		{"pieces of thinking", thought("a", false), thought("b", false), chunk.Thinking{Content: "ab"}},
		{"thinking and its end", thought("a", false), thought("ab", true), nil},
		{"two ends of thinking", thought("a", true), thought("b", true), nil},
		{"arguments of one call", args("c1", "{"), args("c1", "}"), chunk.ToolArgStreamDelta{ToolCallID: "c1", Delta: "{}"}},
		{"arguments of two calls", args("c1", "{"), args("c2", "}"), nil},
		{"text and thinking", text("a"), thought("b", false), nil},
		{"text and no delta", text("a"), chunktest.Of(chunk.StepStart{}), nil},
		{"no deltas", chunktest.Of(chunk.StepStart{}), chunktest.Of(chunk.StepStart{}), nil},
		{"another agent", text("a"), but(text("b"), func(c *chunk.Chunk) { c.AgentID = "other" }), nil},
		{"another agent type", text("a"), but(text("b"), func(c *chunk.Chunk) { c.AgentType = "other" }), nil},
		{"another step", text("a"), but(text("b"), func(c *chunk.Chunk) { c.Step++ }), nil},
		{"extra members", text("a"), but(text("b"), func(c *chunk.Chunk) { c.Extra = []chunk.Member{{Name: "x"}} }), nil},
		{"no body", text("a"), chunk.Chunk{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := chunk.Merge(tt.a, tt.b)
			if ok != (tt.want != nil) {
				t.Fatalf("merged: %v", ok)
			}
			if want := but(tt.a, func(c *chunk.Chunk) { c.Body = tt.want }); ok && !reflect.DeepEqual(got, want) {
				t.Errorf("Merge = %+v, want %+v", got, want)
			}
		})
	}
}

// The parts of a Split fit, are as large as possible, and merge to the original chunk. If Split returns nothing, no split is possible.
func TestSplitPartsMergeToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := chunktest.Deltas().Draw(t, "chunk")
		limit := rapid.IntRange(0, 200).Draw(t, "limit")
		parts := chunk.Split(whole, limit)
		if parts == nil {
			if n := size(t, whole); n <= limit || limit-size(t, emptied(whole)) >= len(`\ud800`) {
				t.Fatalf("%d bytes were not split for %d", n, limit)
			}
			return
		}
		joined := parts[0]
		for i, part := range parts {
			if n := size(t, part); n > limit {
				t.Fatalf("part %d has %d bytes, limit is %d", i, n, limit)
			}
			if i == 0 {
				continue
			}
			both, ok := chunk.Merge(parts[i-1], part)
			if !ok || size(t, both)-size(t, emptied(part)) < limit-size(t, emptied(part))-len(`\ud800`) {
				t.Fatalf("parts %d and %d would have fitted together", i-1, i)
			}
			if joined, ok = chunk.Merge(joined, part); !ok {
				t.Fatalf("part %d does not merge", i)
			}
		}
		if !reflect.DeepEqual(joined, whole) {
			t.Fatalf("merged: %+v, was %+v", joined, whole)
		}
	})
}

func size(t failer, c chunk.Chunk) int {
	t.Helper()
	text, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return len(text)
}

func emptied(c chunk.Chunk) chunk.Chunk {
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		c.Body = chunk.TextDelta{}
	case chunk.Thinking:
		c.Body = chunk.Thinking{}
	case chunk.ToolArgStreamDelta:
		c.Body = chunk.ToolArgStreamDelta{ToolCallID: b.ToolCallID}
	}
	return c
}

func TestSplit(t *testing.T) {
	long := strings.Repeat("ä\n😀", 1000)
	tests := []struct {
		name  string
		chunk chunk.Chunk
		limit int
		parts int
	}{
		{"fits", chunktest.Full(chunk.TypeOutput), 10_000, 1},
		{"long text", chunktest.Of(chunk.TextDelta{Delta: long}), 4096, 3},
		{"long thinking", chunktest.Of(chunk.Thinking{Content: long}), 4096, 3},
		{"complete thinking is one piece", chunktest.Of(chunk.Thinking{Content: long, IsComplete: true}), 4096, 0},
		{"no delta", chunktest.Of(chunk.Error{Error: long}), 4096, 0},
		{"extra members", chunktest.Full(chunk.TypeTextDelta), 100, 0},
		{"over the limit", chunktest.Of(chunk.TextDelta{Delta: long}), 100, 0},
		{"not valid", chunktest.Of(chunk.TextDelta{Delta: "\xff"}), 4096, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := chunk.Split(tt.chunk, tt.limit); len(got) != tt.parts {
				t.Errorf("%d parts, want %d", len(got), tt.parts)
			}
		})
	}
}
