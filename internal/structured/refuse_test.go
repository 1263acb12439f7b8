package structured

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// line returns a chunk of stream s.
func line(rest string) []byte { return lineOf("s", rest) }

func lineOf(stream, rest string) []byte {
	return fmt.Appendf(nil, `{"type":"structured-data","streamId":%q,"dataType":"d",%s}`, stream, rest)
}

func set(path, value string) []byte {
	return line(fmt.Sprintf(`"kind":"set","path":%q,"value":%s`, path, value))
}

const before = `"kind":"set","path":"o","value":{"n":1,"s":"x","l":[1,2],"e":[]}`

// Strict input validation rejects everything that a correct producer does not send; a chunk in the log is read as the original reads it. A rejection marks the
// stream and changes neither its value nor another stream.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		chunk  []byte
		strict bool // rejected only if Strict
	}{
		{"an empty path", set("", "1"), false},
		{"a double dot", set("a..b", "1"), false},
		{"a leading dot", set(".a", "1"), false},
		{"a trailing dot", set("a.", "1"), false},
		{"a wildcard", set("a.*.b", "1"), true},
		{"index 2^32-1", set("o.l.4294967295", "1"), false},
		{"index 10^30", set("o.l.1"+strings.Repeat("0", 30), "1"), false},
		{"an index with leading zeros", set("o.l.01", "1"), false},
		{"an index far beyond the end", set("o.l.1027", "1"), false},
		{"an index beyond the end", set("o.l.3", "1"), true},
		{"an index far beyond the end of an array to be", set("o.l.2.1025", "1"), false},
		{"index 1 of a new array", set("new.1", "1"), true},
		{"index -1 of an array", set("o.l.-1", "1"), false},
		{"index -1 of nothing", set("new.-1", "1"), true},
		{"a member of a number", set("o.n.a", "1"), false},
		{"an append to a string", line(`"kind":"append","path":"o.s","items":[1]`), false},
		{"an append of nothing to a string", line(`"kind":"append","path":"o.s","items":[]`), false},
		{"text on an array", line(`"kind":"text-delta","path":"o.l","delta":"x"`), false},
		{"no text on an array", line(`"kind":"text-delta","path":"o.l","delta":""`), false},
		{"no delta", line(`"kind":"text-delta","path":"o.s"`), false},
		{"a delta that is a number", line(`"kind":"text-delta","path":"o.s","delta":5`), false},
		{"items that are a string", line(`"kind":"append","path":"o.l","items":"ab"`), false},
		{"no items", line(`"kind":"append","path":"o.l"`), false},
		{"an unknown kind", line(`"kind":"replace","path":"o.s","delta":"x"`), false},
		{"no kind", line(`"path":"o.s","delta":"x"`), false},
		{"no path", line(`"kind":"set","value":1`), false},
		{"a path that is an array", line(`"kind":"set","path":["a"],"value":1`), false},
		{"set without a value", line(`"kind":"set","path":"a"`), true},
		{"final without data", line(`"kind":"final"`), true},
		{"a label that is a number", line(`"kind":"final","data":1,"node":5`), false},
		{"a label that is null", line(`"kind":"final","data":1,"id":null`), false},
		{"a long label", line(`"kind":"final","data":1,"id":"` + strings.Repeat("x", MaxLabel+1) + `"`), false},
		{"65 segments", set("a"+strings.Repeat(".a", MaxSegments), "1"), false},
		{"10,000 segments", set("a"+strings.Repeat(".a", 9999), "1"), false},
		{"a long segment", set(strings.Repeat("a", MaxName+1), "1"), false},
		{"the prototype", set("a.__proto__.b", "1"), false},
		{"the prototype of a constructor", set("constructor.prototype", "1"), false},
		{"growth on what every object inherits", line(`"kind":"append","path":"o.toString","items":[1]`), false},
	} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/strict=%t", c.name, strict), func(t *testing.T) {
				s := State{Strict: strict}
				for _, stream := range []string{"s", "other"} {
					if err := s.Apply(lineOf(stream, before)); err != nil {
						t.Fatal(err)
					}
				}
				before := []string{string(s.Stream("s").AppendShown(nil)), string(s.Stream("other").AppendShown(nil))}
				err := s.Apply(c.chunk)
				if want := strict || !c.strict; (err != nil) != want {
					t.Fatalf("err = %v, want one: %t", err, want)
				} else if !want {
					return
				}
				bad, ok := errors.AsType[*RejectedError](err)
				if !ok || !errors.Is(err, ErrRejected) || bad.Stream != "s" || len(err.Error()) > 300 {
					t.Errorf("err = %#v", err)
				}
				got := []string{string(s.Stream("s").AppendShown(nil)), string(s.Stream("other").AppendShown(nil))}
				if !slices.Equal(got, before) {
					t.Errorf("streams are %s, were %s", got, before)
				}
				if s.Stream("s").LastError() != err.Error() || s.Stream("other").LastError() != "" || s.Rejected != 1 || s.Stream("s").Rejected != 1 {
					t.Errorf("failed: %q, other: %q, %d refused", s.Stream("s").LastError(), s.Stream("other").LastError(), s.Rejected)
				}
				if err := s.Apply(line(`"kind":"final","data":1`)); err != nil || s.Stream("s").LastError() != "" {
					t.Errorf("final: %v, failed: %q", err, s.Stream("s").LastError())
				}
				if err := s.Apply(line(`"kind":"final","data":1`)); err == nil || s.Stream("s").LastError() != "" || s.Stream("s").Rejected != 2 {
					t.Errorf("after final: %v, failed: %q", err, s.Stream("s").LastError())
				}
			})
		}
	}
}

// Chunks just within the bounds are applied.
func TestChunksAtTheLimitsAreApplied(t *testing.T) {
	for _, c := range []struct {
		name   string
		chunk  []byte
		strict bool // also applied if Strict
	}{
		{"an index at the end", set("o.l.2", "1"), true},
		{"index 0 of a new array", set("new.0.0", "1"), true},
		{"an index a little beyond the end", set("o.l.1026", "1"), false},
		{"an index in an array to be", set("o.l.2.1024", "1"), false},
		{"64 segments", set("a"+strings.Repeat(".a", MaxSegments-1), "1"), true},
		{"a long segment", set(strings.Repeat("a", MaxName), "1"), true},
		{"a long label", lineOf(strings.Repeat("x", MaxLabel), `"kind":"final","data":1`), true},
		{"null", set("a", "null"), true},
		{"a name of the prototype, as data", set("a", `{"__proto__":{"constructor":1}}`), true},
		{"a name of functions only", set("prototype.prototype.a", "1"), true},
		{"what every object inherits, set", set("o.toString", `"x"`), true},
		{"stars among others", set("a.*b.-.1x", "1"), true},
		{"31 levels", set("a", strings.Repeat("[", 31)+strings.Repeat("]", 31)), true},
		{"nearly 20,000 values", set("a", "[0"+strings.Repeat(",0", 19_979)+"]"), true},
		{"1 MiB", append(line(`"kind":"final","data":1`), strings.Repeat(" ", MaxChunk-len(line(`"kind":"final","data":1`)))...), true},
	} {
		for _, strict := range []bool{false, true} {
			s := State{Strict: strict}
			if err := s.Apply(line(before)); err != nil {
				t.Fatal(err)
			}
			if err := s.Apply(c.chunk); (err == nil) != (c.strict || !strict) {
				t.Errorf("%s, strict %t: %v", c.name, strict, err)
			}
			if err := sound(&s); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// Halves of characters are joined however they are written and split; a half that stays alone keeps the spelling of its escape.
func TestSurrogateHalvesAreJoined(t *testing.T) {
	for _, c := range []struct {
		deltas []string // as in JSON
		want   string
	}{
		{[]string{`\ud83d`, `\ude00`}, `"😀"`},
		{[]string{`\ud83d\ude00 \uD83D`}, `"😀 \ud83d"`},
		{[]string{`\ud83d 😀\n\u00e9\/`, `\ude00`}, `"\ud83d 😀\né/\ude00"`},
		{[]string{`\ud83d`, ``, `\ude00\ud83d`, `\ude00`}, `"😀😀"`},
		{[]string{`\ude00`, `\ud83d`}, `"\ude00\ud83d"`},
		{[]string{`\ud83d`, `\ud83d`, `\ude00`}, `"\ud83d😀"`},
		{[]string{`\uDBFF\uDFFF\uABCD\udFfF`}, `"􏿿\uABCD\udfff"`},
	} {
		var s State
		for _, delta := range c.deltas {
			if err := s.Apply(line(`"kind":"text-delta","path":"t","delta":"` + delta + `"`)); err != nil {
				t.Fatal(err)
			}
			s = *reload(t, &s)
		}
		want := `{"streamId":"s","dataType":"d","status":"streaming","data":{"t":` + strings.ReplaceAll(c.want, `\uABCD`, "\uABCD") + `}}`
		if got := string(s.Stream("s").AppendShown(nil)); got != want {
			t.Errorf("%q: %s, want %s", c.deltas, got, want)
		}
	}
}

// A clone and its original grow in separate buffers.
func TestCloneAndOriginalAreIndependent(t *testing.T) {
	var s State
	apply := func(s *State, path, delta string) {
		t.Helper()
		if err := s.Apply(line(fmt.Sprintf(`"kind":"text-delta","path":%q,"delta":%q`, path, delta))); err != nil {
			t.Fatal(err)
		}
	}
	apply(&s, "t", "one two three ")
	apply(&s, "t", "four ") // now the buffer has capacity after the text
	c := s.Clone()
	apply(&s, "t", "five")
	apply(c, "t", "six")
	apply(&s, "u", "x")
	for want, s := range map[string]*State{`{"t":"one two three four five","u":"x"}`: &s, `{"t":"one two three four six"}`: c} {
		if got := string(s.Stream("s").data.append(nil, false)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Input that is not a chunk, exceeds the limits or names no stream is counted and changes no stream.
func TestNoChunk(t *testing.T) {
	for _, text := range []string{
		"", " ", "null", "[]", "5", `"x"`, "{", "{}", "{} {}", "\xef\xbb\xbf{}", `{"type":"text-delta","delta":"x"}`,
		`{"type":"structured-data"}`, `{"type":"structured-data","streamId":5,"dataType":"d","kind":"final","data":1}`,
		`{"type":"structured-data","streamId":null,"dataType":"d","kind":"final","data":1}`,
		`{"type":"structured-data","streamId":"` + strings.Repeat("x", MaxLabel+1) + `","dataType":"d","kind":"final","data":1}`,
		`{"type":"custom","streamId":"s","dataType":"d","kind":"final","data":1}`,
		"{\"type\":\"structured-data\",\"streamId\":\"\xff\",\"dataType\":\"d\",\"kind\":\"final\",\"data\":1}",
		strings.Repeat("[", 1<<19), string(line(`"kind":"final","data":1`)) + strings.Repeat(" ", MaxChunk),
		string(set("a", `{"`+strings.Repeat("a", MaxName+1)+`":1}`)),      // a long name in a value
		string(set("a", strings.Repeat("[", 32)+strings.Repeat("]", 32))), // 32 levels
		string(set("a", "[0"+strings.Repeat(",0", 19_999)+"]")),           // 20,000 values
		string(set("a", `{"b":1,"b":2}`)),                                 // a name twice
		string(set("a", `{"\ud800":1,"\ud800":2}`)),                       // a name twice, in lone surrogates
	} {
		var s State
		if err := s.Apply(lineOf("", before)); err != nil { // still creates a stream
			t.Fatal(err)
		}
		if err := s.Apply([]byte(text)); !errors.Is(err, ErrRejected) || s.Rejected != 1 || len(s.order) != 1 || s.Stream("").Rejected != 0 {
			t.Errorf("%.60q: %v, %d refused, %d streams, %d of them refused", text, err, s.Rejected, len(s.order), s.Stream("").Rejected)
		}
	}
}

// Ids are data, whatever they contain: the empty id, names of the prototype, wildcards.
func TestIDsAreData(t *testing.T) {
	var s State
	ids := []string{"", "__proto__", "constructor", "*", ">", "a.b", "$JS.API", "\u202e", "s"}
	for _, id := range ids {
		if err := s.Apply(lineOf(id, fmt.Sprintf(`"kind":"set","path":"a","value":%q`, id))); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	i := 0
	for stream := range s.Streams() {
		var shown struct {
			StreamID string `json:"streamId"`
			Data     struct {
				A string `json:"a"`
			} `json:"data"`
		}
		if err := json.Unmarshal(stream.AppendShown(nil), &shown); err != nil || shown.StreamID != ids[i] || shown.Data.A != ids[i] {
			t.Errorf("stream %d: %v %s, want %q", i, err, stream.AppendShown(nil), ids[i])
		}
		i++
	}
	s.Remove("*")
	s.Remove("unknown")
	if s.Stream("*") != nil || s.Stream(">") == nil || len(s.order) != len(ids)-1 {
		t.Errorf("%d streams after the drop", len(s.order))
	}
	if err := sound(&s); err != nil {
		t.Error(err)
	}
}

// A stream whose chunks were all rejected exists with a mark, and its next chunk may be its first.
func TestFailedBeforeItBegan(t *testing.T) {
	var s State
	if err := s.Apply(set("a..b", "1")); err == nil {
		t.Fatal("want a refusal")
	}
	s2 := reload(t, &s)
	for _, s := range []*State{&s, s2} {
		stream := s.Stream("s")
		if stream == nil || stream.Status() != Empty || stream.LastError() == "" {
			t.Fatalf("stream is %+v", stream)
		}
		if err := s.Apply(set("a", "1")); err != nil || stream.Status() != Streaming || stream.LastError() == "" {
			t.Errorf("%v, stream is %+v", err, stream)
		}
	}
}

// For any chunks the State stays within its limits, and a rejected chunk removes nothing.
func TestLimits(t *testing.T) {
	zeros := strings.Repeat(",0", 9_999)
	for _, c := range []struct {
		name  string
		chunk func(i int) []byte
	}{
		{"one text", func(int) []byte {
			return line(`"kind":"text-delta","path":"t","delta":"` + strings.Repeat("x", 200_000) + `"`)
		}},
		{"one array", func(int) []byte { return line(`"kind":"append","path":"l","items":[0` + zeros + `]`) }},
		{"one array of arrays", func(int) []byte { return line(`"kind":"append","path":"l","items":[[0` + zeros + `]]`) }},
		{"gaps", func(i int) []byte { return set(fmt.Sprint("l.", i*1025), "1") }},
		{"gaps in new arrays", func(i int) []byte { return set(fmt.Sprintf("l%d.1000.1000.1000", i), "1") }},
		{"names", func(i int) []byte { return set(fmt.Sprintf("%d%s", i, strings.Repeat("n", 1000)), "1") }},
		{"numbers", func(i int) []byte { return set(fmt.Sprint("k", i), "1"+strings.Repeat("0", 500_000)) }},
		{"streams", func(i int) []byte { return lineOf(fmt.Sprint(i), `"kind":"final","data":1`) }},
		{"refused streams", func(i int) []byte { return lineOf(fmt.Sprint(i), `"kind":"set","path":"a..b","value":1`) }},
		{"text in many streams", func(i int) []byte {
			return lineOf(fmt.Sprint(i), `"kind":"final","data":"`+strings.Repeat("x", 900_000)+`"`)
		}},
		{"values in many streams", func(i int) []byte { return lineOf(fmt.Sprint(i), `"kind":"final","data":[0`+zeros+`]`) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			for i := range 1200 {
				err := s.Apply(c.chunk(i))
				if i == 0 && err != nil && c.name != "refused streams" {
					t.Fatalf("chunk 0: %v", err)
				}
				if bad := sound(&s); i%100 == 0 && bad != nil {
					t.Fatalf("chunk %d: %v", i, bad)
				}
				if err != nil && s.Rejected > 2 && c.name != "refused streams" {
					break
				}
			}
			if s.Rejected == 0 {
				t.Error("nothing was refused")
			}
			if err := sound(&s); err != nil {
				t.Error(err)
			}
			if back := reload(t, &s); back.size != s.size || len(back.order) != len(s.order) {
				t.Errorf("read back: %v, want %v", back.size, s.size)
			}
		})
	}
}

// Deep paths with deep values at their end are within the limits of Parse.
func TestDeepest(t *testing.T) {
	var s State
	path := strings.Repeat("a.", MaxSegments-1) + "a"
	if err := s.Apply(set(path, strings.Repeat("[", 31)+strings.Repeat("]", 31))); err != nil {
		t.Fatal(err)
	}
	if back := reload(t, &s); back.size != s.size {
		t.Errorf("size %v, want %v", back.size, s.size)
	}
}

// A text of 256 KiB in pieces of ten bytes costs time proportional to its length, not to the square of it (which would copy 3 GB).
func TestLongTextIsNotCopiedOverAndOver(t *testing.T) {
	var s State
	chunk := line(`"kind":"text-delta","path":"sections.0.body","delta":"ten bytes."`)
	n := MaxText / 4 / 10
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	for range n {
		if err := s.Apply(chunk); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&to)
	perChunk := (to.TotalAlloc - from.TotalAlloc) / uint64(n)
	t.Logf("%d bytes for a chunk of %d", perChunk, len(chunk))
	if perChunk > 16<<10 {
		t.Errorf("%d bytes for a chunk, want about what reading it takes", perChunk)
	}
}

// Parse rejects invalid states.
func TestParseRefuses(t *testing.T) {
	stream := func(rest string) string {
		return `{"refused":0,"streams":[{"streamId":"s","dataType":"d",` + rest + `}]}`
	}
	for name, text := range map[string]string{
		"nothing":                    "",
		"an array":                   "[]",
		"streams of another type":    `{"refused":0,"streams":5}`,
		"a stream of another type":   `{"refused":0,"streams":[5]}`,
		"a negative count":           `{"refused":-1,"streams":[]}`,
		"a count that is text":       `{"refused":"1","streams":[]}`,
		"a status of another day":    stream(`"status":"failed"`),
		"data before the beginning":  stream(`"status":"","data":1`),
		"unset beyond the data":      stream(`"status":"streaming","data":[null],"unset":[[1,2]]`),
		"unset that overflows":       stream(`"status":"streaming","data":[null],"unset":[[1,9223372036854775807]]`),
		"unset that is not null":     stream(`"status":"streaming","data":[1],"unset":[[1,1]]`),
		"unset twice":                stream(`"status":"streaming","data":[null],"unset":[[1,1],[1,1]]`),
		"unset that is one number":   stream(`"status":"streaming","data":[null],"unset":[1]`),
		"a reason that is too long":  stream(`"status":"streaming","failed":"` + strings.Repeat("x", maxFailure+1) + `"`),
		"a label that is too long":   stream(`"status":"streaming","id":"` + strings.Repeat("x", MaxLabel+1) + `"`),
		"values beyond the limit":    stream(`"status":"streaming","data":[0` + strings.Repeat(",0", MaxValues) + `]`),
		"one stream twice":           `{"streams":[{"streamId":"s","dataType":"d","status":"done"},{"streamId":"s","dataType":"d","status":"done"}]}`,
		"a stream without an id":     `{"streams":[{"dataType":"d","status":"done"}]}`,
		"more than one value":        `{"streams":[]} {}`,
		"more levels than there are": stream(`"status":"streaming","data":` + strings.Repeat("[", 200) + strings.Repeat("]", 200)),
	} {
		if s, err := Parse([]byte(text)); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v, %v, want ErrState", name, s, err)
		}
	}
}
