package kortyx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/structured"
	"github.com/tailrace/tailrace/projector/fold"
)

// turnOf returns the records of a turn with these bodies.
func turnOf(tb failer, bodies ...chunk.Body) []chunk.Record {
	tb.Helper()
	bodies = append([]chunk.Body{chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hello"}}}}, bodies...)
	log := make([]chunk.Record, len(bodies))
	for i, b := range bodies {
		log[i] = recordOf(tb, session, chunk.Seq(10+i), 1, chunk.Ordinal(1+i), 1, b)
	}
	return log
}

// places returns pointers to all values of a document.
func places(doc chunk.Value, at string) []string {
	out := []string{at}
	switch rawjson.Kind(doc) {
	case '{':
		for name, v := range rawjson.Members(doc) {
			token := strings.ReplaceAll(strings.ReplaceAll(string(name.Bytes()), "~", "~0"), "/", "~1")
			out = append(out, places(v, at+"/"+token)...)
		}
	case '[':
		i := 0
		for v := range rawjson.Elements(doc) {
			out = append(out, places(v, at+"/"+strconv.Itoa(i))...)
			i++
		}
	}
	return out
}

// applicable draws operations that apply to a document, and returns the document after them.
func applicable(t *rapid.T, doc chunk.Value) ([]chunk.PatchOp, chunk.Value) {
	var ops []chunk.PatchOp
	values := []string{`1`, `null`, `"x"`, `[]`, `{}`, `[1,[2],{"a":[]}]`, `{"list":[1],"x.y":{"a":1},"12":[0],"__proto__":{"b":[1]}}`, `{"a":{"b":{"c":[{"list":[]}]}}}`}
	for range rapid.IntRange(1, 4).Draw(t, "ops") {
		all := places(doc, "")
		at := func(what string) string { return rapid.SampledFrom(all).Draw(t, what) }
		child := func() string {
			in := at("in")
			token := rapid.SampledFrom(names).Draw(t, "name")
			if v := find(doc, tokens(in)); rawjson.Kind(v) == '[' {
				token = rapid.SampledFrom([]string{"-", "0", strconv.Itoa(count(v)), strconv.Itoa(count(v) / 2)}).Draw(t, "index")
			}
			return in + "/" + token
		}
		op := chunk.PatchOp{Op: rapid.SampledFrom([]string{"add", "add", "add", "replace", "remove", "move", "copy"}).Draw(t, "op")}
		switch op.Op {
		case "add":
			op.Path, op.Value = child(), new(chunk.Value(rapid.SampledFrom(values).Draw(t, "value")))
		case "replace":
			op.Path, op.Value = at("place"), new(chunk.Value(rapid.SampledFrom(values).Draw(t, "value")))
		case "remove":
			op.Path = at("place")
		default:
			op.Path, op.From = child(), new(at("from"))
		}
		next, err := fold.ApplyPatch(doc, []chunk.PatchOp{op})
		if err != nil || len(next) > 5000 {
			continue
		}
		doc, ops = next, append(ops, op)
	}
	return ops, doc
}

// A client that applies the changes has the document of the snapshot after each patch, whatever the names in it.
func TestStateOfAnyPatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := chunk.Value(`{"list":[],"a":{"b":[{"a":1}]},"x.y":[1,[2]]}`)
		w := NewWriter(doc)
		log := turnOf(t)
		w.Append(nil, log[0])
		client := new(structured.Stream)
		for i := range rapid.IntRange(1, 6).Draw(t, "patches") {
			var ops []chunk.PatchOp
			ops, doc = applicable(t, doc)
			if len(ops) == 0 {
				continue
			}
			n := i + 2
			rec := recordOf(t, session, chunk.Seq(10+n), 1, chunk.Ordinal(1+n), 1, chunk.StatePatch{Patches: ops})
			chunks, _ := readStream(string(w.Append(nil, rec)))
			for _, text := range chunks {
				if err := client.Apply([]byte(text)); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			}
			if got := member(client.AppendData(nil), stateRoot); !sameJSON(t, got, doc) {
				t.Fatalf("after %s\n got %s\nwant %s", rec.Data, got, doc)
			}
		}
	})
}

// A patch is written as the smallest changes that a path can name.
func TestStateChanges(t *testing.T) {
	doc := chunk.Value(`{"a":{"b":1,"c":[1,2],"x.y":{"z":1}},"list":[{"n":1},{"n":2}],"12":{"a":1}}`)
	one := chunk.Value("9")
	op := func(op, path string) chunk.PatchOp {
		o := chunk.PatchOp{Op: op, Path: path}
		if op == "add" || op == "replace" || op == "test" {
			o.Value = &one
		}
		return o
	}
	from := func(op, from, path string) chunk.PatchOp { return chunk.PatchOp{Op: op, From: &from, Path: path} }
	for _, tt := range []struct {
		name string
		ops  []chunk.PatchOp
		want []string
	}{
		{"a member", []chunk.PatchOp{op("add", "/a/d")}, []string{`set state.a.d 9`}},
		{"an element that is replaced", []chunk.PatchOp{op("replace", "/list/1/n")}, []string{`set state.list.1.n 9`}},
		{"an element at the end", []chunk.PatchOp{op("add", "/a/c/-")}, []string{`append state.a.c [9]`}},
		{"two elements at the end", []chunk.PatchOp{op("add", "/a/c/-"), op("add", "/a/c/3")}, []string{`append state.a.c [9,9]`}},
		{"an element in between", []chunk.PatchOp{op("add", "/a/c/0")}, []string{`set state.a.c [9,1,2]`}},
		{"an element at the end and one in between", []chunk.PatchOp{op("add", "/a/c/-"), op("add", "/a/c/0")}, []string{`set state.a.c [9,1,2,9]`}},
		{"a new element that changes", []chunk.PatchOp{op("add", "/a/c/-"), op("replace", "/a/c/2")}, []string{`append state.a.c [9]`}},
		{"an old element besides a new one", []chunk.PatchOp{op("add", "/a/c/-"), op("replace", "/a/c/0")}, []string{`append state.a.c [9]`, `set state.a.c.0 9`}},
		{"a member that is removed", []chunk.PatchOp{op("remove", "/a/c")}, []string{`set state.a {"b":1,"x.y":{"z":1}}`}},
		{"a name with a dot", []chunk.PatchOp{op("replace", "/a/x.y/z")}, []string{`set state.a {"b":1,"c":[1,2],"x.y":{"z":9}}`}},
		{"a name of digits", []chunk.PatchOp{op("replace", "/12/a")}, []string{`set state {"a":{"b":1,"c":[1,2],"x.y":{"z":1}},"list":[{"n":1},{"n":2}],"12":{"a":9}}`}},
		{"a name of the prototype", []chunk.PatchOp{op("add", "/a/constructor")}, []string{`set state.a {"b":1,"c":[1,2],"x.y":{"z":1},"constructor":9}`}},
		{"places in one another", []chunk.PatchOp{op("replace", "/a/b"), op("replace", "/a")}, []string{`set state.a 9`}},
		{"a copy", []chunk.PatchOp{from("copy", "/a/b", "/a/e")}, []string{`set state.a.e 1`}},
		{"a move", []chunk.PatchOp{from("move", "/list/0/n", "/list/1/m")}, []string{`set state.list.0 {}`, `set state.list.1.m 1`}},
		{"a test", []chunk.PatchOp{{Op: "test", Path: "/a/b", Value: new(chunk.Value("1"))}}, nil},
		{"a test that fails", []chunk.PatchOp{op("test", "/a/b"), op("replace", "/a/b")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWriter(doc)
			first := []chunk.PatchOp{{Op: "test", Path: "/a/b", Value: new(chunk.Value("1"))}}
			log := turnOf(t, chunk.StatePatch{Patches: first}, chunk.StatePatch{Patches: tt.ops})
			for _, rec := range log[:2] {
				w.Append(nil, rec)
			}
			chunks, _ := readStream(string(w.Append(nil, log[2])))
			var got []string
			for _, text := range chunks {
				m := dialect.Read([]byte(text))
				value := m.Peek("value")
				if value == nil {
					value = m.Peek("items")
				}
				got = append(got, fmt.Sprintf("%s %s %s", m.Or("kind", ""), m.Or("path", ""), value))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// A removal of records restores the state, and a client gets it with the resync.
func TestStateAfterARemoval(t *testing.T) {
	set := func(name string) chunk.StatePatch {
		return chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/" + name, Value: new(chunk.Value("1"))}}}
	}
	truncated := func(first, last int64) chunk.Truncated {
		return chunk.Truncated{Removed: []chunk.OrdinalRange{{First: first, Last: last}}}
	}
	resync := chunk.StreamResync{CheckpointID: "cp", Reason: "retry"}
	for _, tt := range []struct {
		name   string
		bodies []chunk.Body
		want   string // "" if it is not known
	}{
		{"the last patches", []chunk.Body{set("a"), set("b"), set("c"), truncated(3, 4), resync, set("d")}, `{"a":1,"d":1}`},
		{"all patches", []chunk.Body{set("a"), set("b"), truncated(2, 3), resync, set("d")}, `{"d":1}`},
		{"without a resync", []chunk.Body{set("a"), set("b"), truncated(3, 3), set("d")}, `{"a":1,"d":1}`},
		{"none", []chunk.Body{set("a"), chunk.TextDelta{Delta: "x"}, truncated(3, 3), resync, set("d")}, `{"a":1,"d":1}`},
		{"twice", []chunk.Body{set("a"), set("b"), truncated(3, 3), resync, set("c"), truncated(6, 6), resync, set("d")}, `{"a":1,"d":1}`},
		{"patches in between", []chunk.Body{set("a"), set("b"), truncated(2, 2), resync, set("d")}, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := turnOf(t, tt.bodies...)
			var c client
			p := &printer{}
			w := machineOf(p)
			body := ""
			for _, rec := range log {
				body += string(w.Append(nil, rec))
			}
			c.follow(t, body)
			if tt.want == "" {
				if p.state.lost != strings.Contains(body, "native.chunk") || !p.state.lost {
					t.Errorf("a patch of an unknown state is not carried: %s", body)
				}
				return
			}
			if got := member(c.streams["state:s1"].AppendData(nil), stateRoot); !sameJSON(t, got, []byte(tt.want)) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Without the state before the turn, patches are carried, unless the session begins with the turn.
func TestStateThatIsNotKnown(t *testing.T) {
	patch := chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(chunk.Value("1"))}}}
	for _, tt := range []struct {
		name  string
		state chunk.Value
		first chunk.Ordinal
		want  string
	}{
		{"the first turn", nil, 1, `"path":"state","value":{"a":1}`},
		{"a later turn", nil, 7, `"dataType":"native.chunk"`},
		{"a later turn with a state", chunk.Value(`{"b":2}`), 7, `"path":"state","value":{"b":2,"a":1}`},
	} {
		log := turnOf(t, patch)
		w := NewWriter(tt.state)
		frames := ""
		for i, rec := range log {
			rec.Ordinal = tt.first + chunk.Ordinal(i)
			frames = string(w.Append(nil, rec))
		}
		if !strings.Contains(frames, tt.want) {
			t.Errorf("%s: %s", tt.name, frames)
		}
	}
}

// The states before patches are kept within bounds.
func TestPastStatesAreBounded(t *testing.T) {
	var s customState
	for i := range 10 * maxPast {
		s.remember(chunk.Ordinal(i + 1))
		s.doc = chunk.Value(strings.Repeat("1", i))
	}
	if len(s.past) > maxPast || s.forgotten == 0 {
		t.Errorf("%d states, %d is the last one before them", len(s.past), s.forgotten)
	}
	s.doc = chunk.Value(strings.Repeat("1", fold.MaxState))
	for i := range 10 {
		s.remember(chunk.Ordinal(100_000 + i))
	}
	if s.pastBytes > maxPastBytes {
		t.Errorf("%d bytes", s.pastBytes)
	}
	s.restore(func(at chunk.Ordinal) bool { return at >= 100_007 })
	if s.lost {
		t.Error("a state that is kept was not restored")
	}
	s.restore(func(at chunk.Ordinal) bool { return at >= 5 })
	if !s.lost {
		t.Error("a state that is not kept was restored")
	}
}
