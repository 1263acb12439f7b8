package producers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

func TestBaseMembersAreFilledIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		r.SetStep(7)
		if err := r.EmitBody(t.Context(), chunk.TextDelta{Delta: "a"}); err != nil {
			t.Fatal(err)
		}
		emitAll(t, r, chunk.Chunk{Step: 2, Body: chunk.TextDelta{Delta: "b"}})
		emitAll(t, r, chunk.Chunk{AgentID: "s1", AgentType: "other", Timestamp: 5, Step: 3, Body: chunk.TextDelta{Delta: "c"}})
		r.SetAgentType("next")
		r.SetAgentType("")
		emitAll(t, r, chunk.Chunk{Step: 4, Body: chunk.TextDelta{Delta: "d"}})
		if _, err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := time.Now().UnixMilli()
		want := []chunk.Chunk{
			{AgentID: "s1", AgentType: "tester", Timestamp: now, Step: 0, Body: chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}},
			{AgentID: "s1", AgentType: "tester", Timestamp: now, Step: 7},
			{AgentID: "s1", AgentType: "tester", Timestamp: now, Step: 2},
			{AgentID: "s1", AgentType: "other", Timestamp: 5, Step: 3},
			{AgentID: "s1", AgentType: "next", Timestamp: now, Step: 4},
		}
		for i, rec := range l.records() {
			c, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			if w := want[i]; c.AgentID != w.AgentID || c.AgentType != w.AgentType || c.Timestamp != w.Timestamp || c.Step != w.Step {
				t.Errorf("record %d: %+v, want %+v", i, c, w)
			}
		}
	})
}

// Invalid chunks, and types that the stream itself writes, are rejected with the name of the field, and the run continues.
func TestInvalidChunksAreRejected(t *testing.T) {
	opaque := func(kind chunk.Type, raw string) chunk.Chunk {
		return chunk.Chunk{Body: chunk.Opaque{Kind: kind, Raw: chunk.Value(raw)}}
	}
	const base = `"agentId":"s1","agentType":"a","timestamp":1,"step":0`
	for name, tc := range map[string]struct {
		c    chunk.Chunk
		want error
	}{
		"no body":                          {chunk.Chunk{}, chunk.ErrInvalid},
		"another agent":                    {chunk.Chunk{AgentID: "s2", Body: chunk.TextDelta{}}, chunk.ErrInvalid},
		"arguments that are not an object": {chunk.Chunk{Body: chunk.ToolStart{ToolCallID: "c", ToolName: "n", Arguments: chunk.Value(`[]`)}}, chunk.ErrInvalid},
		"invalid UTF-8":                    {chunk.Chunk{Body: chunk.TextDelta{Delta: "\xff"}}, chunk.ErrInvalid},
		"a body by pointer":                {chunk.Chunk{Body: &chunk.TextDelta{}}, chunk.ErrInvalid},
		"a run_started":                    {chunk.Chunk{Body: chunk.RunStarted{RunID: "r", Epoch: 99, Mode: "execute"}}, chunk.ErrInvalid},
		"an end":                           {chunk.Chunk{Body: chunk.StreamEnd{StreamID: "s1"}}, chunk.ErrInvalid},
		"a mark":                           {chunk.Chunk{Body: chunk.Truncated{}}, chunk.ErrInvalid},
		"too large":                        {chunk.Chunk{Body: chunk.Custom{EventName: strings.Repeat("x", 512<<10)}}, chunk.ErrTooLarge},
		"a delta with a large rest":        {chunk.Chunk{Body: chunk.TextDelta{}, Extra: []chunk.Member{{Name: "x", Value: chunk.Value(`"` + strings.Repeat("x", 512<<10) + `"`)}}}, chunk.ErrTooLarge},
		"a long call id":                   {chunk.Chunk{Body: chunk.ToolArgStreamDelta{ToolCallID: strings.Repeat("x", 600<<10), Delta: "x"}}, nil},

		"an unknown type that is another":   {opaque("later", `{"type":"other",`+base+`}`), chunk.ErrInvalid},
		"an unknown type that is known":     {opaque("later", `{"type":"text_delta",`+base+`,"delta":"x"}`), chunk.ErrInvalid},
		"an end in disguise":                {opaque("later", `{"type":"stream_end",`+base+`,"streamId":"s1"}`), chunk.ErrInvalid},
		"an opaque end":                     {opaque("stream_end", `{"type":"stream_end",`+base+`,"streamId":"s1"}`), chunk.ErrInvalid},
		"an unknown type of another":        {opaque("later", `{"type":"later","agentId":"s2","agentType":"a","timestamp":1,"step":0}`), chunk.ErrInvalid},
		"an unknown type with invalid JSON": {opaque("later", `{`), chunk.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{})
				err := r.Emit(t.Context(), tc.c)
				if !errors.Is(err, chunk.ErrNotStored) || tc.want != nil && !errors.Is(err, tc.want) {
					t.Errorf("err = %v, want %v", err, tc.want)
				}
				if _, err := r.Write(t.Context(), numbered(1)); err != nil {
					t.Errorf("the next chunk: %v", err)
				}
				l.mustHave("custom")
			})
		})
	}
}

// A chunk of a type this build does not know is stored byte for byte.
func TestUnknownTypesAreStoredWhole(t *testing.T) {
	for _, f := range []codec.Format{codec.FormatJSON, codec.FormatMsgpack} {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, Config{Format: f})
				const raw = `{"type":"later","agentId":"s1","agentType":"a","timestamp":1,"step":0,"news":[1,"two"]}`
				if _, err := r.Write(t.Context(), chunk.Chunk{Body: chunk.Opaque{Kind: "later", Raw: chunk.Value(raw)}}); err != nil {
					t.Fatal(err)
				}
				if rec := l.records()[1]; string(rec.Data) != raw || rec.Type != "later" {
					t.Errorf("stored %s as %s", rec.Data, rec.Type)
				}
			})
		})
	}
}

// Both formats have the same content.
func TestMsgpackStoresTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{Format: codec.FormatMsgpack})
		emitAll(t, r, text("a"), numbered(1))
		if err := r.End(t.Context(), chunk.Value(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		l.mustHave("a", "custom", "stream_end")
		for _, m := range l.msgs {
			if got := headerOf(m.header, "ce-datacontenttype"); got != "application/msgpack" {
				t.Errorf("content type %q", got)
			}
		}
	})
}
