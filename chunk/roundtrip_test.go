package chunk_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// An encoded chunk decodes to the same chunk.
func TestWrittenIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chunktest.Chunks().Draw(t, "chunk")
		text, err := c.AppendJSON([]byte("before"))
		if err != nil {
			t.Fatalf("%#v: %v", c, err)
		}
		text, ok := bytes.CutPrefix(text, []byte("before"))
		if !ok || bytes.ContainsAny(text, "\n\r") {
			t.Fatalf("not one line behind what was there: %q", text)
		}
		back, err := chunk.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(back, c) {
			t.Fatalf("%s\nis read as %#v\nwas        %#v", text, back, c)
		}
	})
}

// Any spelling of the JSON of a chunk, decoded and encoded again, is the same JSON value: the same members, numbers digit by digit, strings code unit by code
// unit.
func TestReadIsWrittenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chunktest.Chunks().Draw(t, "chunk")
		text, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		want := mustParse(t, text).(jsonObject)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "style"), 0))
		shown := withoutDefaults(c, want, rng)
		styled := render(rng, shown)
		read, err := chunk.Decode([]byte(styled))
		if err != nil {
			t.Fatalf("%s: %v", styled, err)
		}
		again, err := read.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(mustParse(t, again), want) {
			t.Fatalf("%s\nis written as %s", styled, again)
		}
	})
}

// withoutDefaults removes at random members that equal their default: step 0, and null where the schema requires "any". An unknown type has no such members.
func withoutDefaults(c chunk.Chunk, o jsonObject, rng *rand.Rand) jsonObject {
	shown := maps.Clone(o)
	if _, ok := c.Body.(chunk.Opaque); ok || rng.IntN(2) == 0 {
		return shown
	}
	if shown[key("step")] == jsonNumber("0") {
		delete(shown, key("step"))
	}
	for name, types := range map[string][]chunk.Type{
		"result": {chunk.TypeToolEnd, chunk.TypeSubagentEnd},
		"input":  {chunk.TypeToolApprovalRequest},
		"data":   {chunk.TypeCustom},
		"output": {chunk.TypeOutput},
	} {
		if shown[key(name)] == nil && slices.Contains(types, c.Type()) {
			delete(shown, key(name))
		}
	}
	return shown
}

// Decode keeps no reference to its input: overwriting the input changes no chunk.
func TestDecodeCopies(t *testing.T) {
	for _, s := range chunktest.All() {
		text, err := s.Chunk.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := chunk.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		clear(text)
		if !reflect.DeepEqual(c, s.Chunk) {
			t.Errorf("%s changed with its input", s.Name)
		}
	}
}

// A failed AppendJSON leaves dst unchanged.
func TestFailedAppendLeavesDst(t *testing.T) {
	c := chunktest.Of(chunk.Output{Output: chunk.Value("[")})
	dst, err := c.AppendJSON([]byte("before"))
	if err == nil || string(dst) != "before" {
		t.Errorf("AppendJSON = %q, %v", dst, err)
	}
}

// Line breaks outside strings are the only part of a value that is not kept.
func TestLineBreaksInValues(t *testing.T) {
	const pretty = "{\"type\":\"output\",\"agentId\":\"a\",\"agentType\":\"\",\"timestamp\":0,\n \"output\": {\r\n \"a b\" : [ 1.0 , \"\\n\" ]\n}, \"x\":[1, 2]}\n"
	const want = `{"type":"output","agentId":"a","agentType":"","timestamp":0,"step":0,"output":{"a b":[1.0,"\n"]},"x":[1, 2]}`
	c, err := chunk.Decode([]byte(pretty))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(c.Body.(chunk.Output).Output); got != `{"a b":[1.0,"\n"]}` {
		t.Errorf("Output = %s", got)
	}
	if got, err := c.AppendJSON(nil); err != nil || string(got) != want {
		t.Errorf("AppendJSON = %s, %v", got, err)
	}
	own := chunktest.Of(chunk.Output{Output: chunk.Value(" [1,\n2] ")})
	if got, err := own.AppendJSON(nil); err != nil || !bytes.HasSuffix(got, []byte(`"output":[1,2]}`)) {
		t.Errorf("AppendJSON = %s, %v", got, err)
	}
}
