package structured

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// The reference is the same reducer in the simplest form: Go values, text in UTF-16 as in JavaScript, copied each time.
type (
	refUnset  struct{}
	refNumber string
	refText   []uint16
	refArray  []any
	refMember struct {
		name  string
		value any
	}
	refObject []refMember
)

// act is the operation of a chunk.
type act struct {
	stream, kind, label string
	path                []string
	value               any      // of set and final; refUnset: the chunk has none
	items               refArray // of append
	delta               refText  // of text-delta
}

func (a act) chunk() []byte {
	b := fmt.Appendf(nil, `{"type":"structured-data","streamId":%q,"dataType":%q,"node":%q,"kind":%q`, a.stream, a.label, a.label, a.kind)
	if a.kind != "final" {
		b = fmt.Appendf(b, `,"path":%q`, strings.Join(a.path, "."))
	}
	_, unset := a.value.(refUnset)
	switch {
	case a.kind == "set" && !unset:
		b = fmt.Appendf(b, `,"value":%s`, refJSON(a.value))
	case a.kind == "final" && !unset:
		b = fmt.Appendf(b, `,"data":%s`, refJSON(a.value))
	case a.kind == "append":
		b = fmt.Appendf(b, `,"items":%s`, refJSON(a.items))
	case a.kind == "text-delta":
		b = fmt.Appendf(b, `,"delta":%s`, refJSON(a.delta))
	}
	return append(b, '}')
}

func refJSON(v any) string {
	switch v := v.(type) {
	case nil, refUnset:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case refNumber:
		return string(v)
	case refText:
		return v.json()
	case refArray:
		var items []string
		for _, item := range v {
			items = append(items, refJSON(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	case refObject:
		var members []string
		for _, m := range v {
			if m.value != any(refUnset{}) {
				members = append(members, strconv.Quote(m.name)+":"+refJSON(m.value))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	panic("no value")
}

func (t refText) json() string {
	b := []byte{'"'}
	for i := 0; i < len(t); i++ {
		r := rune(t[i])
		if utf16.IsSurrogate(r) && i+1 < len(t) && utf16.DecodeRune(r, rune(t[i+1])) != utf8.RuneError {
			r = utf16.DecodeRune(r, rune(t[i+1]))
			i++
		}
		if utf16.IsSurrogate(r) {
			b = fmt.Appendf(b, `\u%04x`, r)
			continue
		}
		q, err := jsontext.AppendQuote(nil, string(r))
		if err != nil {
			panic(err)
		}
		b = append(b, q[1:len(q)-1]...)
	}
	return string(append(b, '"'))
}

type reference struct {
	done  bool
	label string
	data  any
}

var errRefused = errors.New("refused")

func (w *reference) apply(a act) error {
	switch {
	case w.done:
		return errRefused
	case a.kind == "final":
		*w = reference{done: true, label: a.label, data: a.value}
		return nil
	}
	for _, seg := range a.path {
		switch {
		case seg == "" || seg == "__proto__" || seg == "constructor":
			return errRefused
		case isDigits(seg) && seg[0] == '0' && len(seg) > 1:
			return errRefused
		}
	}
	data, err := walk(w.data, a.path, a)
	if err != nil {
		return err
	}
	*w = reference{label: a.label, data: data}
	return nil
}

// walk returns old with the change at the end of the path.
func walk(old any, path []string, a act) (any, error) {
	if len(path) == 0 {
		return leaf(old, a)
	}
	seg := path[0]
	if !isDigits(seg) {
		return walkObject(old, path, a)
	}
	var list refArray
	if old != any(refUnset{}) {
		had, ok := old.(refArray)
		if !ok {
			return nil, errRefused
		}
		list = slices.Clone(had)
	}
	i, err := strconv.Atoi(seg)
	if err != nil || i > len(list)+MaxGap {
		return nil, errRefused
	}
	for len(list) <= i {
		list = append(list, refUnset{})
	}
	list[i], err = walk(list[i], path[1:], a)
	return list, err
}

func walkObject(old any, path []string, a act) (any, error) {
	var members refObject
	if old != any(refUnset{}) {
		had, ok := old.(refObject)
		if !ok {
			return nil, errRefused
		}
		members = slices.Clone(had)
	}
	i := slices.IndexFunc(members, func(m refMember) bool { return m.name == path[0] })
	if i < 0 {
		if path[0] == "valueOf" && (len(path) > 1 || a.kind != "set") {
			return nil, errRefused
		}
		i = len(members)
		members = append(members, refMember{path[0], refUnset{}})
	}
	v, err := walk(members[i].value, path[1:], a)
	members[i].value = v
	return members, err
}

func leaf(old any, a act) (any, error) {
	_, unset := old.(refUnset)
	switch a.kind {
	case "set":
		return a.value, nil
	case "append":
		list, ok := old.(refArray)
		if !ok && !unset {
			return nil, errRefused
		}
		return append(slices.Clone(list), a.items...), nil
	default:
		had, ok := old.(refText)
		if !ok && !unset {
			return nil, errRefused
		}
		return append(slices.Clone(had), a.delta...), nil
	}
}

// shown returns the expected output of Stream.AppendShown.
func (w *reference) shown(id string) string {
	status := "streaming"
	if w.done {
		status = "done"
	}
	out := fmt.Sprintf(`{"streamId":%q,"dataType":%q,"status":%q`, id, w.label, status)
	if w.label != "" {
		out += fmt.Sprintf(`,"node":%q`, w.label)
	}
	if w.data != any(refUnset{}) {
		out += `,"data":` + refJSON(w.data)
	}
	return out + "}"
}

func drawText(t *rapid.T, what string) refText {
	return rapid.SliceOfN(rapid.SampledFrom([]uint16{'a', '"', '\\', '\n', 0, 0x7F, 0xE9, 0x2028, 0xD83D, 0xDE00, 0xDBFF, 0xDFFF}), 0, 4).Draw(t, what)
}

func drawValue(t *rapid.T, depth int) any {
	maxShape := 7
	if depth == 0 {
		maxShape = 5
	}
	switch rapid.IntRange(0, maxShape).Draw(t, "shape") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return refNumber(rapid.SampledFrom([]string{"0", "-0", "1.0", "1e400", "12345678901234567890123", "-1.50E-7"}).Draw(t, "number"))
	case 3, 4, 5:
		return drawText(t, "text")
	case 6:
		list := refArray{}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	default:
		members := refObject{}
		for _, name := range rapid.Permutation([]string{"a", "b", "0", "", "a.b", "__proto__", "valueOf"}).Draw(t, "names")[:rapid.IntRange(0, 4).Draw(t, "len")] {
			members = append(members, refMember{name, drawValue(t, depth-1)})
		}
		return members
	}
}

func drawAct(t *rapid.T) act {
	a := act{
		stream: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "stream"),
		label:  rapid.SampledFrom([]string{"", "n"}).Draw(t, "label"),
		kind:   rapid.SampledFrom([]string{"set", "set", "append", "append", "text-delta", "text-delta", "text-delta", "set", "append", "final"}).Draw(t, "kind"),
	}
	if a.kind == "final" && rapid.IntRange(0, 4).Draw(t, "early") > 0 {
		a.kind = "text-delta"
	}
	segment := rapid.SampledFrom([]string{"a", "a", "a", "b", "b", "c", "0", "0", "1", "2", "x y", "d", "e", "f", "g", "h", "i", "j", "valueOf", "007", "1200", "", "constructor", "*"})
	a.path = rapid.SliceOfN(segment, 1, 4).Draw(t, "path")
	switch a.kind {
	case "append":
		a.items = refArray{}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			a.items = append(a.items, drawValue(t, 2))
		}
	case "text-delta":
		a.delta = drawText(t, "delta")
	default:
		if a.value = drawValue(t, 3); rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
			a.value = refUnset{}
		}
	}
	return a
}

// TestReference: for any chunks the State equals the reference; saving and loading between any two of them changes nothing; a clone and its original are
// independent; and the sizes that the limits count are those of the trees.
func TestReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, saved, references := new(State), new(State), map[string]*reference{}
		var refused int64
		for range rapid.IntRange(1, 40).Draw(t, "chunks") {
			a := drawAct(t)
			w := references[a.stream]
			if w == nil {
				w = &reference{data: refUnset{}}
			}
			text, before := a.chunk(), state.AppendJSON(nil)
			copied := state.Clone()
			got, want := state.Apply(text), w.apply(a)
			if (got == nil) != (want == nil) {
				t.Fatalf("%s: %v, want %v", text, got, want)
			}
			if after := copied.AppendJSON(nil); !bytes.Equal(before, after) {
				t.Fatalf("the clone changed:\n%s, was\n%s", after, before)
			}
			if want != nil {
				refused++
			} else {
				references[a.stream] = w
			}
			equalReferences(t, state, references)
			if state.Rejected != refused {
				t.Fatalf("refused %d, want %d", state.Rejected, refused)
			}

			saved = reloadRapid(t, saved)
			if err := saved.Apply(text); (err == nil) != (want == nil) {
				t.Fatalf("after a save %s: %v, want %v", text, err, want)
			}
			if w, g := state.AppendJSON(nil), saved.AppendJSON(nil); !bytes.Equal(w, g) {
				t.Fatalf("after a save:\n%s, want\n%s", g, w)
			}
			if err := sound(saved); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func equalReferences(t *rapid.T, state *State, references map[string]*reference) {
	t.Helper()
	for id, w := range references {
		if got, want := string(state.Stream(id).AppendShown(nil)), w.shown(id); got != want {
			t.Fatalf("stream %s:\n%s, want\n%s", id, got, want)
		}
	}
	if err := sound(state); err != nil {
		t.Fatal(err)
	}
}

func reloadRapid(t *rapid.T, s *State) *State {
	t.Helper()
	data := s.AppendJSON(nil)
	back, err := Parse(data)
	if err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return back
}

// sound checks the invariants: the sizes are correct and within the limits.
func sound(s *State) error {
	var all size
	for stream := range s.Streams() {
		counted := stream.data.size().minus(size{values: 1})
		if counted != stream.size {
			return fmt.Errorf("stream %q has size %v, says %v", stream.Labels.StreamID, counted, stream.size)
		}
		if !counted.within(size{MaxText, MaxValues}) {
			return fmt.Errorf("stream %q has size %v", stream.Labels.StreamID, counted)
		}
		all = all.plus(counted)
	}
	if all != s.size {
		return fmt.Errorf("size %v, says %v", all, s.size)
	}
	if !all.within(size{MaxTexts, MaxTotal}) || len(s.order) > MaxStreams || len(s.streams) != len(s.order) {
		return fmt.Errorf("size %v, %d streams", all, len(s.order))
	}
	return nil
}
