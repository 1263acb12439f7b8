package workers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// jsonValue draws a JSON value.
func jsonValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](""),
		rapid.Map(rapid.SampledFrom([]string{"0", "1", "1.0", "1e2", "12345678901234567890", "-0.1"}), func(s string) any { return json.Number(s) }),
		rapid.Map(rapid.SampledFrom([]string{"a", "é", "~1/", "\\\"", "<&>", "\u2028", "😀"}), func(s string) any { return s }),
	)
	if depth == 0 {
		return leaf
	}
	inner := jsonValue(depth - 1)
	name := rapid.SampledFrom([]string{"a", "b", "c", "", "0", "01", "-", "x/y", "m~n", "😀"})
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(inner, 0, 5), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(name, inner, 0, 5), func(m map[string]any) any { return m }))
}

func document(t *rapid.T, name string) chunk.Value {
	inner := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(jsonValue(2), 0, 6), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "-"}), jsonValue(2), 0, 5), func(m map[string]any) any { return m }))
	v, err := chunk.ValueOf(inner.Draw(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The difference between any two states yields the new state in the fold, which all readers use.
func TestDiffYieldsTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := chunk.RootSession("t", "s")
		f, now, ordinal := fold.New(s), chunk.Value(nil), 0
		write := func(body chunk.Body) {
			ordinal++
			c := chunk.Chunk{AgentID: "s", AgentType: "a", Timestamp: 1, Step: 1, Body: body}
			data, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			err = f.Apply(chunk.Record{
				Seq: chunk.Seq(ordinal), Session: s, Epoch: 1, Ordinal: chunk.Ordinal(ordinal), Type: c.Type(), StoredAt: time.UnixMilli(1), Data: data,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			to := document(t, "to")
			ops, err := diff(now, to)
			if err != nil {
				t.Fatal(err)
			}
			if len(ops) > 0 {
				write(chunk.StatePatch{Patches: ops})
			} else if canonical(to) != canonical(orEmpty(now)) {
				t.Fatalf("diff of %s and %s is empty", now, to)
			}
			snap := f.Snapshot()
			if snap.Faults.RejectedPatches > 0 {
				t.Fatalf("fold rejects %+v: %+v", ops, snap.Faults)
			}
			if len(ops) > 0 && canonical(snap.State) != canonical(to) {
				t.Fatalf("from %s to %s: fold has %s", now, to, snap.State)
			}
			now = to
		}
	})
}

func orEmpty(v chunk.Value) chunk.Value {
	if v == nil {
		return chunk.Value(emptyState)
	}
	return v
}

// A small change of a large state is a small patch, and texts that encoding/json would change are preserved.
func TestDiff(t *testing.T) {
	large := `{"list":[` + strings.Repeat(`{"n":1},`, 500) + `{"n":2}],"x":1}`
	for name, test := range map[string]struct{ from, to, want string }{
		"nothing":             {`{"a":1}`, `{"a":1}`, `[]`},
		"one member of many":  {large, strings.Replace(large, `"x":1`, `"x":2`, 1), `[{"op":"replace","path":"/x","value":2}]`},
		"a new element":       {`{"a":[1,2]}`, `{"a":[1,2,3]}`, `[{"op":"add","path":"/a/-","value":3}]`},
		"a number's spelling": {`{"a":1}`, `{"a":1.0}`, `[{"op":"replace","path":"/a","value":1.0}]`},
		"half a character":    {`{"a":"\ud83d"}`, `{"a":"\ud83c"}`, `[{"op":"replace","path":"","value":{"a":"\ud83c"}}]`},
		"no name":             {`{}`, `{"":1}`, `[{"op":"replace","path":"","value":{"":1}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			ops, err := diff(chunk.Value(test.from), chunk.Value(test.to))
			if err != nil {
				t.Fatal(err)
			}
			data, err := chunk.Chunk{AgentID: "a", Body: chunk.StatePatch{Patches: ops}}.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(data), fmt.Sprintf(`"patches":%s`, test.want)) {
				t.Errorf("got %s, want %s", data, test.want)
			}
		})
	}
	if _, err := diff(nil, chunk.Value(`"text"`)); err == nil {
		t.Error("string accepted as the state")
	}
}
