package fold

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// op returns one operation; more is its value, or "from:" and a pointer.
func op(name, path string, more ...string) chunk.PatchOp {
	o := chunk.PatchOp{Op: name, Path: path}
	for _, m := range more {
		if from, ok := strings.CutPrefix(m, "from:"); ok {
			o.From = &from
			continue
		}
		v := chunk.Value(m)
		o.Value = &v
	}
	return o
}

func repeat(n int, o chunk.PatchOp) []chunk.PatchOp { return slices.Repeat([]chunk.PatchOp{o}, n) }

// TestBadPatches checks that invalid patches are rejected as a whole and do not change the state.
func TestBadPatches(t *testing.T) {
	big := `"` + strings.Repeat("x", MaxState) + `"`
	deep := strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)
	nest := []chunk.PatchOp{op("add", "/n", deep)}
	for depth := 40; depth <= 600; depth += 40 {
		nest = append(nest, op("copy", "/n"+strings.Repeat("/a", 40), "from:/n"))
	}
	for _, c := range []struct {
		name string
		ops  []chunk.PatchOp
	}{
		{"D01 an array copied into itself forty times", repeat(40, op("copy", "/a/-", "from:/a"))},
		{"D02 more operations than allowed", repeat(20_000, op("add", "/a/0", "1"))},
		{"D04 no slash", []chunk.PatchOp{op("add", "a", "1")}},
		{"D05 a bad escape", []chunk.PatchOp{op("add", "/~2", "1")}},
		{"D05 a lone tilde", []chunk.PatchOp{op("add", "/a~", "1")}},
		{"D06 an index with a leading zero", []chunk.PatchOp{op("add", "/a/01", "1")}},
		{"D07 a negative index", []chunk.PatchOp{op("add", "/a/-1", "1")}},
		{"D07 a negative index read", []chunk.PatchOp{op("copy", "/b", "from:/a/-1")}},
		{"a signed index", []chunk.PatchOp{op("replace", "/a/+1", "1")}},
		{"D08 an index of 2^32", []chunk.PatchOp{op("add", "/a/4294967296", "1")}},
		{"D09 remove after the end", []chunk.PatchOp{op("remove", "/a/-")}},
		{"replace after the end", []chunk.PatchOp{op("replace", "/a/3", "1")}},
		{"D10 move into its own child", []chunk.PatchOp{op("move", "/o/x", "from:/o")}},
		{"D11 a test that fails after a change", []chunk.PatchOp{op("add", "/z", "1"), op("test", "/z", "2")}},
		{"D12 an unknown operation", []chunk.PatchOp{op("increment", "/a", "1")}},
		{"D13 no value", []chunk.PatchOp{op("add", "/z")}},
		{"D13 a test without a value", []chunk.PatchOp{op("test", "/nothing")}},
		{"D15 no parent", []chunk.PatchOp{op("add", "/no/where", "1")}},
		{"a test for null of nothing", []chunk.PatchOp{op("test", "/nothing", "null")}},
		{"D16 no from", []chunk.PatchOp{op("move", "/z")}},
		{"D17 a path of 10,000 tokens", []chunk.PatchOp{op("add", strings.Repeat("/a", 10_000), "1")}},
		{"a result over the limit", []chunk.PatchOp{op("add", "/z", big)}},
		{"a result that nests too deep", nest},
		{"the whole state becomes a number", []chunk.PatchOp{op("replace", "", "7")}},
		{"the whole state is removed", []chunk.PatchOp{op("remove", "")}},
		{"remove what is not there", []chunk.PatchOp{op("remove", "/nothing")}},
		{"a test that panics the library", []chunk.PatchOp{op("test", "/nulls", "[null,1]")}},
		{"lone surrogates are not all the same", []chunk.PatchOp{op("test", "/lone", `"\udfff"`)}},
		{"a lone surrogate and its replacement", []chunk.PatchOp{op("add", "/z", "\"\\ud800\U0010F000\"")}},
		{"too many odd tokens", repeat(maxOddOps+1, op("add", "/o/-1", "1"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := chunk.Value(`{"a":[1,2,3],"o":{"k":1},"nulls":[null,2],"lone":"\ud800"}`)
			before := slices.Clone(state)
			if got, err := ApplyPatch(state, c.ops); err == nil {
				t.Errorf("accepted: %.200s", got)
			}
			if string(state) != string(before) {
				t.Errorf("the state was changed in place: %s", state)
			}
		})
	}
}

func TestGoodPatches(t *testing.T) {
	for _, c := range []struct {
		name, state string
		ops         []chunk.PatchOp
		want        string
	}{
		{"D14 null is a value", `{}`, []chunk.PatchOp{op("add", "/a", "null")}, `{"a":null}`},
		{"D18 a name that means something to JavaScript", `{}`, []chunk.PatchOp{op("add", "/__proto__", `{"x":1}`)}, `{"__proto__":{"x":1}}`},
		{"names that would be bad indices", `{"01":1,"-":2}`, []chunk.PatchOp{op("replace", "/01", "5"), op("add", "/-1", "6"), op("copy", "/x", "from:/-")}, `{"01":5,"-":2,"-1":6,"x":2}`},
		{"append", `{"a":[]}`, []chunk.PatchOp{op("add", "/a/-", "1"), op("add", "/a/-", "2"), op("add", "/a/0", "0")}, `{"a":[0,1,2]}`},
		{"escapes", `{"a/b":{"~":1}}`, []chunk.PatchOp{op("replace", "/a~1b/~0", "2")}, `{"a/b":{"~":2}}`},
		{"a whole new state", `{"a":1}`, []chunk.PatchOp{op("replace", "", ` [ 1 ] `), op("add", "/0", "0")}, `[0,1]`},
		{"big numbers and signs stay", `{"n":9007199254740993,"s":"<&>"}`, []chunk.PatchOp{op("add", "/m", "1e400")}, `{"n":9007199254740993,"s":"<&>","m":1e400}`},
		{"lone surrogates stay, in names as in values", `{"\ud800":"\udc00"}`, []chunk.PatchOp{op("copy", "/\xed\xa0\x81", "from:/\xed\xa0\x80"), op("test", "/\xed\xa0\x81", `"\udc00"`)}, `{"\ud800":"\udc00","\ud801":"\udc00"}`},
		{"a pair stays a pair", `{}`, []chunk.PatchOp{op("add", "/e", `"\ud83d\ude00\ud83d"`)}, `{"e":"\ud83d\ude00\ud83d"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ApplyPatch(chunk.Value(c.state), c.ops)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

// TestRejectedPatchIsCounted checks that a rejected patch is counted with a fault and does not change the state.
func TestRejectedPatchIsCounted(t *testing.T) {
	s := newSnapshot(session)
	for i, body := range []chunk.Body{
		chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"},
		chunk.StatePatch{Patches: []chunk.PatchOp{op("add", "/a", "1")}},
		chunk.StatePatch{Patches: []chunk.PatchOp{op("add", "/b", "2"), op("test", "/a", "3")}},
		chunk.StatePatch{Patches: []chunk.PatchOp{op("add", "/c", "3")}},
	} {
		rec := record(t, i+1, body)
		var err error
		if s, err = applyRecord(s, rec); err != nil {
			t.Fatal(err)
		}
	}
	if string(s.State) != `{"a":1,"c":3}` || s.Faults.RejectedPatches != 1 || len(s.Faults.Recent) != 1 {
		t.Errorf("state %s, faults %+v", s.State, s.Faults)
	}
	if m := s.Faults.Recent[0]; m.Position.Ordinal != 3 || m.Type != chunk.TypeStatePatch || !strings.Contains(m.Reason, "failed") {
		t.Errorf("fault %+v", m)
	}
}

// TestFaultsAreBounded checks that the head keeps only the latest faults but counts all of them.
func TestFaultsAreBounded(t *testing.T) {
	s := newSnapshot(session)
	for i := range 100 {
		rec := record(t, i+1, chunk.TextDelta{Delta: "x"})
		rec.Data = []byte("no JSON")
		if _, err := applyRecord(s, rec); !errors.Is(err, ErrInvalidRecord) {
			t.Fatalf("err = %v, want ErrInvalidRecord", err)
		}
		var err error
		if s, err = skipRecord(s, rec, fmt.Sprintf("reason %d\n", i)+strings.Repeat("é", 300)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Faults.Skipped != 100 || len(s.Faults.Recent) != maxFaults || !strings.HasPrefix(s.Faults.Recent[maxFaults-1].Reason, "reason 99 é") {
		t.Errorf("faults %+v", s.Faults)
	}
	equal(t, "reload", reload(t, s), s)
}

func record(tb testing.TB, ordinal int, body chunk.Body) chunk.Record {
	tb.Helper()
	c := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1, Step: 0, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return chunk.Record{Seq: chunk.Seq(10 * ordinal), Session: session, Epoch: 1, Ordinal: chunk.Ordinal(ordinal), Type: c.Type(), Data: data}
}
