package rawjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/rawjson"
)

const levels, maxName = 8, 16

var plainLimits = rawjson.Limits{Levels: levels, Name: maxName, Plain: true}

// lenient has the options that accept all JSON.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// counts has the expected results of a scan, counted token by token.
type counts struct {
	levels, values, members, longest int
}

func count(t *testing.T, text []byte) (found counts) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	for dec.PeekKind() > 0 {
		name := false
		if in, n := dec.StackIndex(dec.StackDepth()); in == '{' && n%2 == 0 && dec.PeekKind() == '"' {
			name = true
		}
		tok, err := dec.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		found.levels = max(found.levels, dec.StackDepth())
		switch {
		case name:
			found.longest = max(found.longest, len(tok.String()))
			if dec.StackDepth() == 1 {
				found.members++
			}
		case tok.Kind() != '}' && tok.Kind() != ']':
			found.values++
		}
	}
	return found
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{"type":"text_delta","step":0}`, `{}`, ` {"a":[1,-2.5e+10,true,false,null,"\u00e9\n😀"]} `, `{"a":{"b":{}}}`, `[]`, `{"a":01}`, "{\"a\":\"\xff\"}",
		`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"a":{"b":1},"b":{"b":1}}`, `{"a":1,"\u0061":2}`, `{"a":"\ud83d"}`, `{"a":"\uD83D\uDE00"}`, `{"a":"\ude00\ud83d"}`, `{"a":"\ud83d\n"}`,
		`{"a":[[[[[[[[1]]]]]]]]}`, `{"a":[[[[[[[]]]]]]]}`, `{"a name of seventeen":1}`, "{\"a\"\n:\r1}",
		`{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1,"12":1,"13":1,"14":1,"15":1,"16":1,"17":1,"18":1,"19":1,"20":1,"21":1,"22":1,"23":1,"24":1,"25":1,"26":1,"27":1,"28":1,"29":1,"30":1,"31":1,"a":{"b":1,"c":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members := 0
		info, got := rawjson.ScanObject(text, rawjson.Limits{Levels: levels}, func(name, value rawjson.Span) bool {
			members++
			if !json.Valid(name.Of(text)) || !json.Valid(value.Of(text)) {
				t.Errorf("member %q %q", name.Of(text), value.Of(text))
			}
			return true
		})
		scanned, ok := rawjson.Scan(text, rawjson.Limits{Levels: levels})
		if got && (!ok || scanned != info) || ok && !got && bytes.HasPrefix(rawjson.TrimSpace(text), []byte("{")) {
			t.Fatalf("Scan(%q) = %+v, %v, ScanObject %+v, %v", text, scanned, ok, info, got)
		}
		checkInfo(t, text, scanned, ok)
		valid := json.Valid(text) && utf8.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
		var found counts
		if valid {
			found = count(t, text)
		}
		if want := valid && found.levels <= levels; got != want {
			t.Fatalf("Object(%q) = %v, want %v", text, got, want)
		}
		if got && (members != found.members || info.Values != found.values || info.HasLineBreaks != bytes.ContainsAny(text, "\r\n")) {
			t.Fatalf("%q: %d members, %d values, line breaks %v; want %+v", text, members, info.Values, info.HasLineBreaks, found)
		}
		plain, isPlain := rawjson.ScanObject(text, plainLimits, nil)
		if isPlain && (!got || !jsontext.Value(text).IsValid() || found.longest > maxName || info != plain) {
			t.Fatalf("%q is accepted as plain: %+v, want %+v", text, plain, info)
		}
	})
}

// checkInfo compares a scan of text with the results of the libraries.
func checkInfo(t *testing.T, text []byte, info rawjson.Info, ok bool) {
	t.Helper()
	valid := json.Valid(text) && utf8.Valid(text)
	switch {
	case ok != (valid && info.Exceeded == rawjson.NoLimit), ok && info.End != len(text), info.Exceeded > rawjson.LevelLimit:
		t.Fatalf("Scan(%q) = %+v, %v, valid %v", text, info, ok, valid)
	case !ok && utf8.Valid(text) && json.Valid(text[:info.End]) && !info.Complete:
		t.Fatalf("%q: a value is complete at %d", text, info.End)
	}
	if !ok {
		return
	}
	if lone := jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) == info.LoneSurrogate; lone {
		t.Fatalf("%q: lone surrogate %v", text, info.LoneSurrogate)
	}
	for n := range 4 {
		_, within := rawjson.Scan(text, rawjson.Limits{Levels: levels, Values: n + 1})
		if within != (info.Values <= n+1) {
			t.Fatalf("%q has %d values: accepted with %d: %v", text, info.Values, n+1, within)
		}
	}
	if deep := rawjson.Depth(text); deep > levels || rawjson.Deeper(text, deep) || deep > 0 && !rawjson.Deeper(text, deep-1) {
		t.Fatalf("%q: depth %d", text, deep)
	}
}

func TestPlainLimit(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return b.String()
	}
	for text, want := range map[string]bool{
		`{"a":{"a":{"a":[{"a":1},{"a":2}]}},"b":"\ud83d\ude00 \u00e9 é \" \\"}`: true,
		`{` + many(30) + `"a":{"b":1},"c":{"b":1,"d":"e"}` + `}`:                false,
		`{` + many(30) + `"a":{"b":1},"c":1` + `}`:                              true,
		`{"a":[{` + many(20) + `"a":1},{` + many(20) + `"a":1}]}`:               true,
		`{"a":1,"b":{"c":1,"d":1,"c":1}}`:                                       false,
		`{"a":1,"b":1,"a":1}`:                                                   false,
		`{"\u0061":1}`:                                                          false,
		`{"` + strings.Repeat("a", maxName) + `":1}`:                            true,
		`{"` + strings.Repeat("a", maxName+1) + `":1}`:                          false,
		`{"a":"\ud83d"}`:                                                        false,
		`{"a":"\ude00\ud83d"}`:                                                  false,
		`{"a":"\ud83d\u0061"}`:                                                  false,
	} {
		if _, got := rawjson.ScanObject([]byte(text), plainLimits, nil); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// BenchmarkScan compares a scan with the checks of the libraries, which check less.
func BenchmarkScan(b *testing.B) {
	for _, size := range []int{14, 512, 4096} {
		text := fmt.Appendf(nil, `{"type":"text_delta","agentId":"session-1","agentType":"assistant","timestamp":1700000000123,"step":0,"delta":"%s"}`, strings.Repeat("a", size))
		for name, check := range map[string]func() bool{
			"ours":          func() bool { _, ok := rawjson.ScanObject(text, rawjson.Limits{Levels: levels}, nil); return ok },
			"plain":         func() bool { _, ok := rawjson.ScanObject(text, plainLimits, nil); return ok },
			"encoding_json": func() bool { return json.Valid(text) },
			"jsontext":      func() bool { return jsontext.Value(text).IsValid() },
		} {
			b.Run(fmt.Sprintf("text=%d/%s", size, name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if !check() {
						b.Fatal("not valid")
					}
				}
			})
		}
	}
}
