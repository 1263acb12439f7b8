package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/jsonscan"
)

const levels, maxName = 8, 16

// lenient are the rules of JSON and no more.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// slowly is what the scanner finds, token by token.
type slowly struct {
	levels, values, members, longest int
}

func readSlowly(t *testing.T, text []byte) (found slowly) {
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

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"type":"text_delta","step":0}`, `{}`, ` {"a":[1,-2.5e+10,true,false,null,"\u00e9\n😀"]} `, `{"a":{"b":{}}}`, `[]`, `{"a":01}`, "{\"a\":\"\xff\"}",
		`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"a":{"b":1},"b":{"b":1}}`, `{"a":1,"\u0061":2}`, `{"a":"\ud83d"}`, `{"a":"\uD83D\uDE00"}`, `{"a":"\ude00\ud83d"}`, `{"a":"\ud83d\n"}`,
		`{"a":[[[[[[[[1]]]]]]]]}`, `{"a":[[[[[[[]]]]]]]}`, `{"a name of seventeen":1}`, "{\"a\"\n:\r1}",
		`{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1,"12":1,"13":1,"14":1,"15":1,"16":1,"17":1,"18":1,"19":1,"20":1,"21":1,"22":1,"23":1,"24":1,"25":1,"26":1,"27":1,"28":1,"29":1,"30":1,"31":1,"a":{"b":1,"c":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		sc := jsonscan.Scanner{Data: text, Levels: levels}
		members := 0
		got := sc.Object(func(name, value jsonscan.Span) bool {
			members++
			if !json.Valid(name.Of(text)) || !json.Valid(value.Of(text)) {
				t.Errorf("member %q %q", name.Of(text), value.Of(text))
			}
			return true
		})
		valid := json.Valid(text) && utf8.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
		var found slowly
		if valid {
			found = readSlowly(t, text)
		}
		if want := valid && found.levels <= levels; got != want {
			t.Fatalf("Object(%q) = %v, want %v", text, got, want)
		}
		if got && (members != found.members || sc.Values != found.values || sc.Broken != bytes.ContainsAny(text, "\r\n")) {
			t.Fatalf("%q: %d members, %d values, broken %v; want %+v", text, members, sc.Values, sc.Broken, found)
		}
		plain := jsonscan.Scanner{Data: text, Levels: levels, Plain: true, MaxName: maxName}
		if plain.Object(nil) && (!got || !jsontext.Value(text).IsValid() || found.longest > maxName || sc.Values != plain.Values) {
			t.Fatalf("%q is said to be plain", text)
		}
	})
}

// What is plain, and what is left to other readers.
func TestPlain(t *testing.T) {
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
		sc := jsonscan.Scanner{Data: []byte(text), Levels: levels, Plain: true, MaxName: maxName}
		if got := sc.Object(nil); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// What the check of JSON costs, beside the libraries' (which check less).
func BenchmarkScan(b *testing.B) {
	for _, size := range []int{14, 512, 4096} {
		text := fmt.Appendf(nil, `{"type":"text_delta","agentId":"session-1","agentType":"assistant","timestamp":1700000000123,"step":0,"delta":"%s"}`, strings.Repeat("a", size))
		for name, check := range map[string]func() bool{
			"ours": func() bool { sc := jsonscan.Scanner{Data: text, Levels: levels}; return sc.Object(nil) },
			"plain": func() bool {
				sc := jsonscan.Scanner{Data: text, Levels: levels, Plain: true, MaxName: maxName}
				return sc.Object(nil)
			},
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
