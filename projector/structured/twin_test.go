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

// The twin is the same reducer written down as plainly as possible: values as Go
// has them, text in UTF-16 as JavaScript has it, everything copied every time.
type (
	twinUnset  struct{}
	twinNumber string
	twinText   []uint16
	twinArray  []any
	twinMember struct {
		name  string
		value any
	}
	twinObject []twinMember
)

// act is what a chunk asks for.
type act struct {
	stream, kind, label string
	path                []string
	value               any       // of set and final; twinUnset: the chunk has none
	items               twinArray // of append
	delta               twinText  // of text-delta
}

func (a act) chunk() []byte {
	b := fmt.Appendf(nil, `{"type":"structured-data","streamId":%q,"dataType":%q,"node":%q,"kind":%q`, a.stream, a.label, a.label, a.kind)
	if a.kind != "final" {
		b = fmt.Appendf(b, `,"path":%q`, strings.Join(a.path, "."))
	}
	_, unset := a.value.(twinUnset)
	switch {
	case a.kind == "set" && !unset:
		b = fmt.Appendf(b, `,"value":%s`, twinJSON(a.value))
	case a.kind == "final" && !unset:
		b = fmt.Appendf(b, `,"data":%s`, twinJSON(a.value))
	case a.kind == "append":
		b = fmt.Appendf(b, `,"items":%s`, twinJSON(a.items))
	case a.kind == "text-delta":
		b = fmt.Appendf(b, `,"delta":%s`, twinJSON(a.delta))
	}
	return append(b, '}')
}

func twinJSON(v any) string {
	switch v := v.(type) {
	case nil, twinUnset:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case twinNumber:
		return string(v)
	case twinText:
		return v.json()
	case twinArray:
		var items []string
		for _, item := range v {
			items = append(items, twinJSON(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	case twinObject:
		var members []string
		for _, m := range v {
			if m.value != any(twinUnset{}) {
				members = append(members, strconv.Quote(m.name)+":"+twinJSON(m.value))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	panic("no value")
}

func (t twinText) json() string {
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

type twin struct {
	done  bool
	label string
	data  any
}

var errTwin = errors.New("refused")

func (w *twin) apply(a act) error {
	switch {
	case w.done:
		return errTwin
	case a.kind == "final":
		*w = twin{done: true, label: a.label, data: a.value}
		return nil
	}
	for _, seg := range a.path {
		switch {
		case seg == "" || seg == "__proto__" || seg == "prototype" || seg == "constructor":
			return errTwin
		case isDigits(seg) && seg[0] == '0' && len(seg) > 1:
			return errTwin
		}
	}
	data, err := walk(w.data, a.path, a)
	if err != nil {
		return err
	}
	*w = twin{label: a.label, data: data}
	return nil
}

// walk is old with the change at the end of the path.
func walk(old any, path []string, a act) (any, error) {
	if len(path) == 0 {
		return leaf(old, a)
	}
	seg := path[0]
	if !isDigits(seg) {
		return walkObject(old, path, a)
	}
	var list twinArray
	if old != any(twinUnset{}) {
		had, ok := old.(twinArray)
		if !ok {
			return nil, errTwin
		}
		list = slices.Clone(had)
	}
	i, err := strconv.Atoi(seg)
	if err != nil || i > len(list)+MaxGap {
		return nil, errTwin
	}
	for len(list) <= i {
		list = append(list, twinUnset{})
	}
	list[i], err = walk(list[i], path[1:], a)
	return list, err
}

func walkObject(old any, path []string, a act) (any, error) {
	var members twinObject
	if old != any(twinUnset{}) {
		had, ok := old.(twinObject)
		if !ok {
			return nil, errTwin
		}
		members = slices.Clone(had)
	}
	i := slices.IndexFunc(members, func(m twinMember) bool { return m.name == path[0] })
	if i < 0 {
		if path[0] == "valueOf" && (len(path) > 1 || a.kind != "set") {
			return nil, errTwin
		}
		i = len(members)
		members = append(members, twinMember{path[0], twinUnset{}})
	}
	v, err := walk(members[i].value, path[1:], a)
	members[i].value = v
	return members, err
}

func leaf(old any, a act) (any, error) {
	_, unset := old.(twinUnset)
	switch a.kind {
	case "set":
		return a.value, nil
	case "append":
		list, ok := old.(twinArray)
		if !ok && !unset {
			return nil, errTwin
		}
		return append(slices.Clone(list), a.items...), nil
	default:
		had, ok := old.(twinText)
		if !ok && !unset {
			return nil, errTwin
		}
		return append(slices.Clone(had), a.delta...), nil
	}
}

// view is what Stream.AppendView has to say.
func (w *twin) view(id string) string {
	status := "streaming"
	if w.done {
		status = "done"
	}
	out := fmt.Sprintf(`{"streamId":%q,"dataType":%q,"status":%q`, id, w.label, status)
	if w.label != "" {
		out += fmt.Sprintf(`,"node":%q`, w.label)
	}
	if w.data != any(twinUnset{}) {
		out += `,"data":` + twinJSON(w.data)
	}
	return out + "}"
}

func drawText(t *rapid.T, what string) twinText {
	return rapid.SliceOfN(rapid.SampledFrom([]uint16{'a', '"', '\\', '\n', 0, 0x7F, 0xE9, 0x2028, 0xD83D, 0xDE00, 0xDBFF, 0xDFFF}), 0, 4).Draw(t, what)
}

func drawValue(t *rapid.T, depth int) any {
	most := 7
	if depth == 0 {
		most = 5
	}
	switch rapid.IntRange(0, most).Draw(t, "shape") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return twinNumber(rapid.SampledFrom([]string{"0", "-0", "1.0", "1e400", "12345678901234567890123", "-1.50E-7"}).Draw(t, "number"))
	case 3, 4, 5:
		return drawText(t, "text")
	case 6:
		list := twinArray{}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	default:
		members := twinObject{}
		for _, name := range rapid.Permutation([]string{"a", "b", "0", "", "a.b", "__proto__", "valueOf"}).Draw(t, "names")[:rapid.IntRange(0, 4).Draw(t, "len")] {
			members = append(members, twinMember{name, drawValue(t, depth-1)})
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
		a.items = twinArray{}
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			a.items = append(a.items, drawValue(t, 2))
		}
	case "text-delta":
		a.delta = drawText(t, "delta")
	default:
		if a.value = drawValue(t, 3); rapid.IntRange(0, 9).Draw(t, "missing") == 0 {
			a.value = twinUnset{}
		}
	}
	return a
}

// Whatever chunks come, the State says what the slow twin says; a save and a load
// between any two of them changes nothing; a clone and its original do not see
// each other; and the sizes that the limits count are those of the trees.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, saved, twins := new(State), new(State), map[string]*twin{}
		var refused int64
		for range rapid.IntRange(1, 40).Draw(t, "chunks") {
			a := drawAct(t)
			w := twins[a.stream]
			if w == nil {
				w = &twin{data: twinUnset{}}
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
				twins[a.stream] = w
			}
			equalTwins(t, state, twins)
			if state.Refused != refused {
				t.Fatalf("refused %d, want %d", state.Refused, refused)
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

func equalTwins(t *rapid.T, state *State, twins map[string]*twin) {
	t.Helper()
	for id, w := range twins {
		if got, want := string(state.Stream(id).AppendView(nil)), w.view(id); got != want {
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

// sound checks what always holds: the sizes are true and within the limits.
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
