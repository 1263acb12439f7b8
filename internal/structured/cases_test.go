package structured

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recorded is one line of testdata/reducer-cases.jsonl.
type recorded struct {
	Name   string            `json:"name"`
	Mode   string            `json:"mode"`
	Tags   []string          `json:"tags"`
	Chunks []json.RawMessage `json:"chunks"`
	Expect []struct {
		OK    json.RawMessage `json:"ok"`
		Unset []string        `json:"unset"`
		Error string          `json:"error"`
		Class string          `json:"class"`
	} `json:"expect"`
}

// decided lists the tags of hazards for which this package rejects chunks that the original accepts.
var decided = []string{"proto", "index", "off-schema"}

func cases(tb testing.TB) []recorded {
	tb.Helper()
	file, err := os.Open("testdata/reducer-cases.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var all []recorded
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c recorded
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			tb.Fatal(err)
		}
		all = append(all, c)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	if len(all) < 200 {
		tb.Fatalf("%d cases, want them all", len(all))
	}
	return all
}

// TestRecordedCases: the value after every chunk is the recorded value of the original, and every chunk that the original rejects is rejected here, at the
// same place and for the same reason. The exceptions have a tag; they are rejected here only.
func TestRecordedCases(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			if slices.ContainsFunc(c.Tags, func(tag string) bool { return slices.Contains(decided, tag) }) {
				replayDecided(t, c)
				return
			}
			r := newReplay(c)
			for i, text := range c.Chunks {
				stream, err := r.apply(text)
				switch want := c.Expect[i]; {
				case want.Error != "":
					checkRefusal(t, i, want.Error, err)
				case err != nil:
					t.Fatalf("chunk %d: %v, want %s", i, err, want.OK)
				default:
					checkState(t, i, stream, want.OK, want.Unset)
				}
			}
		})
	}
}

// Where a tag allows a different decision, this package returns the recorded answer or rejects the chunk. The rejected chunks are listed here, so that none is
// rejected by accident.
func replayDecided(t *testing.T, c recorded) {
	t.Helper()
	refuse, listed := map[string][]int{
		"index/leading-zeros":                  {0, 1},
		"index/beyond-array-limit":             {0},
		"index/huge":                           {0},
		"stream/id-constructor":                {},
		"proto/set-object":                     {0},
		"proto/set-null":                       {0},
		"proto/append":                         {0},
		"proto/constructor":                    {0, 1, 2, 3, 4, 5, 6},
		"proto/valueOf":                        {0, 1, 2, 4},
		"proto/isPrototypeOf":                  {0, 1, 2, 4},
		"proto/constructor-prototype":          {0, 1},
		"proto/own-key-in-value":               {},
		"off-schema/path-missing":              {0, 1, 2},
		"off-schema/items-missing":             {0},
		"off-schema/delta-not-a-string":        {0, 3, 4, 5, 6},
		"off-schema/unknown-kind-acts-as-text": {0, 1, 2, 3},
		"off-schema/data-type-missing":         {0},
		"off-schema/labels-not-strings":        {0, 1},
	}[c.Name]
	if !listed {
		t.Fatalf("no expectation for this case: %v", c.Tags)
	}
	r, parted := newReplay(c), false
	for i, text := range c.Chunks {
		stream, err := r.apply(text)
		want := c.Expect[i]
		if slices.Contains(refuse, i) {
			if !errors.Is(err, ErrRejected) {
				t.Errorf("chunk %d: %v, want a refusal", i, err)
			}
			// From a chunk on that only the original accepted, the two states differ.
			parted = parted || want.Error == ""
			continue
		}
		if err != nil {
			t.Errorf("chunk %d: %v, want it applied", i, err)
		} else if !parted {
			checkState(t, i, stream, want.OK, want.Unset)
		}
	}
}

// replay feeds one stream, or a State with many.
type replay struct {
	single *Stream
	keyed  *State
}

func newReplay(c recorded) replay {
	if c.Mode == "single" {
		return replay{single: new(Stream)}
	}
	return replay{keyed: new(State)}
}

func (r replay) apply(text []byte) (*Stream, error) {
	if r.single != nil {
		return r.single, r.single.Apply(text)
	}
	var id struct {
		StreamID string `json:"streamId"`
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return nil, err
	}
	err := r.keyed.Apply(text)
	return r.keyed.Stream(id.StreamID), err
}

func checkState(t *testing.T, i int, s *Stream, want []byte, wantUnset []string) {
	t.Helper()
	shown := s.AppendShown(nil)
	if !reflect.DeepEqual(plain(t, shown), plain(t, want)) {
		t.Fatalf("chunk %d: got\n%s, want\n%s", i, shown, want)
	}
	got := pointers(s.data, "/data")
	slices.Sort(got)
	slices.Sort(wantUnset)
	if !slices.Equal(got, wantUnset) {
		t.Fatalf("chunk %d: unset are %q, want %q", i, got, wantUnset)
	}
}

var escapes = regexp.MustCompile(`(?i)(\\ud[89ab][0-9a-f]{2})(\\ud[c-f][0-9a-f]{2})|\\ud[89a-f][0-9a-f]{2}`)

// plain returns a JSON value as Go values. encoding/json would make all lone surrogates equal, so they are replaced by the text of their escapes.
func plain(t *testing.T, data []byte) any {
	t.Helper()
	data = escapes.ReplaceAllFunc(data, func(e []byte) []byte {
		if len(e) == 12 {
			var pair string
			if err := json.Unmarshal([]byte(`"`+string(e)+`"`), &pair); err != nil {
				t.Fatal(err)
			}
			return []byte(pair)
		}
		return []byte(`\` + strings.ToLower(string(e)))
	})
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return v
}

// pointers returns JSON pointers to the unset places of a tree.
func pointers(n *node, at string) []string {
	if n == nil {
		return []string{at}
	}
	var all []string
	for i, item := range n.items {
		name := strconv.Itoa(i)
		if n.kind == object {
			name = n.names[i]
		}
		all = append(all, pointers(item, at+"/"+name)...)
	}
	return all
}

var (
	conflicts = regexp.MustCompile(`conflict at (.*) for ("(?s:.*)"): expected (\w+) container, received (\w+)\.`)
	leaves    = regexp.MustCompile(`requires path ("(?s:.*)") to target an? (\w+), received (\w+)\.`)
	empties   = regexp.MustCompile(`path ("(?s:.*)") must not contain empty segments`)
)

// checkRefusal compares a recorded error with err.
func checkRefusal(t *testing.T, i int, want string, err error) {
	t.Helper()
	got, ok := errors.AsType[*RejectedError](err)
	if !ok {
		t.Fatalf("chunk %d: %v, want a refusal: %s", i, err, want)
	}
	fact := func(what, got, want string) {
		if got != want {
			t.Errorf("chunk %d: %v: %s is %q, want %q", i, err, what, got, want)
		}
	}
	quoted := func(s string) string { return s[1 : len(s)-1] }
	if m := conflicts.FindStringSubmatch(want); m != nil {
		fact("place", got.At, strings.TrimPrefix(m[1], "<root>"))
		fact("path", got.Path, quoted(m[2]))
		fact("want", got.Want, article(m[3]))
		fact("got", got.Got, article(m[4]))
		return
	}
	if m := leaves.FindStringSubmatch(want); m != nil {
		fact("place", got.At, quoted(m[1]))
		fact("want", got.Want, article(m[2]))
		fact("got", got.Got, article(m[3]))
		return
	}
	switch m := empties.FindStringSubmatch(want); {
	case m != nil:
		fact("path", got.Path, quoted(m[1]))
		fact("got", got.Got, "an empty one")
	case strings.Contains(want, "non-empty"):
		fact("want", got.Want, "a path that is not empty")
	case strings.Contains(want, "mismatch"):
		fact("got", got.Got, "another one")
	case strings.Contains(want, "already completed"):
		fact("want", got.Want, "nothing after the final chunk")
	default:
		t.Errorf("no expectation for %q", want)
	}
}

func article(kind string) string {
	switch kind {
	case "null":
		return "null"
	case "array", "object":
		return "an " + kind
	default:
		return "a " + kind
	}
}

// TestRecordedCasesAcrossASave writes and reads the state at each point of a recorded case.
func TestRecordedCasesAcrossASave(t *testing.T) {
	for _, c := range cases(t) {
		whole, saved := new(State), new(State)
		for i, text := range c.Chunks {
			want, got := whole.Apply(text), saved.Apply(text)
			if (want == nil) != (got == nil) {
				t.Fatalf("%s, chunk %d: %v, want %v", c.Name, i, got, want)
			}
			saved = reload(t, saved)
			if w, g := whole.AppendJSON(nil), saved.AppendJSON(nil); !bytes.Equal(w, g) {
				t.Fatalf("%s, chunk %d:\n%s, want\n%s", c.Name, i, g, w)
			}
			if whole.size != saved.size {
				t.Fatalf("%s, chunk %d: size %v, want %v", c.Name, i, saved.size, whole.size)
			}
		}
	}
}

func reload(tb testing.TB, s *State) *State {
	tb.Helper()
	data := s.AppendJSON(nil)
	if !json.Valid(data) {
		tb.Fatalf("no JSON: %s", data)
	}
	back, err := Parse(data)
	if err != nil {
		tb.Fatalf("%v: %s", err, data)
	}
	back.Strict = s.Strict
	return back
}

// A stream that is complete and released has no value and no size, is the same after a save, and still rejects late chunks. Other streams keep their values.
func TestReleasedStreamRejectsLateChunks(t *testing.T) {
	var s State
	final := `{"type":"structured-data","streamId":"a","dataType":"t","kind":"final","data":{"text":"` + strings.Repeat("x", 1000) + `"}}`
	grows := `{"type":"structured-data","streamId":"b","dataType":"t","kind":"text-delta","path":"p","delta":"y"}`
	for _, c := range []string{final, grows} {
		if stream, err := s.ApplyStream([]byte(c)); err != nil || stream != s.Stream(stream.Labels.StreamID) {
			t.Fatal(stream, err)
		}
	}
	if got := string(s.Stream("b").AppendData(nil)); got != `{"p":"y"}` {
		t.Errorf("data %s", got)
	}
	before := s.MemoryBytes()
	for _, id := range []string{"a", "a", "b", "c"} {
		s.ReleaseValue(id)
	}
	if after := s.MemoryBytes(); after > before-1000 {
		t.Errorf("weight %d, was %d", after, before)
	}
	back, err := Parse(s.AppendJSON(nil))
	if err != nil || !bytes.Equal(back.AppendJSON(nil), s.AppendJSON(nil)) {
		t.Fatalf("%s, %v", s.AppendJSON(nil), err)
	}
	for _, late := range []*State{&s, back} {
		if stream, err := late.ApplyStream([]byte(final)); !errors.Is(err, ErrRejected) || stream != nil {
			t.Errorf("a late chunk: %v, %v", stream, err)
		}
		if err := late.Apply([]byte(grows)); err != nil {
			t.Errorf("another stream: %v", err)
		}
	}
	if got := string(s.Stream("a").AppendData(nil)); got != "null" {
		t.Errorf("the value is still there: %s", got)
	}
}
