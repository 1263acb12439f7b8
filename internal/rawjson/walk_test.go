package rawjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// FuzzWalk splits values and compares the pieces with those of the library, at all levels. Malformed text never panics.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{
		`{"type":"text_delta","step":0}`, `{}`, `[]`, ` {"a":[1,-2.5e+10,true,false,null,"\u00e9\n😀"]} `, `{"a" : {"b":{}} , "c":[ [ ],{ }]}`, `{"a":01}`, "{\"a\":\"\xff\"}",
		`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"a":1,"\u0061":2}`, `{"\ud83d":1,"\uD83D":2}`, `{"\ud83d":1,"\ud83e":2,"\ufffd":3}`, `["\\\"]",{"}":"{"}]`, `{"a":,1}`, `[}`, `{"a"`, `["`, `[1 2]`,
		`{"version":2,"finished":9223372036854775807,"chain":"00"}`, `{"version":2,"open":[{"parts":[{"type":"dynamic-tool"},{"type":"text","state":"streaming"}]}],"gone":[[1]]}`,
		`{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"10":1,"11":1,"12":1,"13":1,"14":1,"15":1,"16":1,"17":1,"18":1,"1\u0036":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) {
			for range rawjson.Members(text) {
				continue
			}
			for range rawjson.Elements(text) {
				continue
			}
			_, _, _ = rawjson.Get(text, "a", "b"), rawjson.Duplicate(text), rawjson.AppendCompact(nil, text)
			return
		}
		if value := rawjson.TrimSpace(text); !bytes.Equal(value, bytes.Trim(text, " \t\r\n")) {
			t.Fatalf("%q is trimmed to %q", text, value)
		}
		compact := bytes.Buffer{}
		if err := json.Compact(&compact, text); err != nil || !bytes.Equal(rawjson.AppendCompact(nil, text), compact.Bytes()) {
			t.Fatalf("%q is compacted to %q", text, rawjson.AppendCompact(nil, text))
		}
		var pieces []string
		walk(text, &pieces)
		if want := tokens(t, text); !slices.Equal(pieces, want) {
			t.Fatalf("%q is walked as %q, want %q", text, pieces, want)
		}
		if strict := jsontext.Value(text).IsValid(); strict && rawjson.Duplicate(text) != nil || !strict && rawjson.Duplicate(text) == nil && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%q: duplicate %q, want one %v", text, rawjson.Duplicate(text), !strict)
		}
	})
}

// walk lists the scalars of a value with the names before them, and the brackets.
func walk(value []byte, pieces *[]string) {
	switch value = rawjson.TrimSpace(value); value[0] {
	case '{':
		*pieces = append(*pieces, "{")
		for name, v := range rawjson.Members(value) {
			*pieces = append(*pieces, string(name))
			walk(v, pieces)
		}
		*pieces = append(*pieces, "}")
	case '[':
		*pieces = append(*pieces, "[")
		for v := range rawjson.Elements(value) {
			walk(v, pieces)
		}
		*pieces = append(*pieces, "]")
	default:
		*pieces = append(*pieces, string(value))
	}
}

// tokens returns the same list, computed with the library.
func tokens(t *testing.T, text []byte) (pieces []string) {
	t.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	for kind := dec.PeekKind(); kind > 0; kind = dec.PeekKind() {
		if kind == '{' || kind == '[' || kind == '}' || kind == ']' {
			if _, err := dec.ReadToken(); err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, string(kind))
			continue
		}
		v, err := dec.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, string(v))
	}
	return pieces
}

func TestMalformed(t *testing.T) {
	for _, text := range []string{``, ` `, `1`, `"{"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":,1}`, `{"a":]}`, `{"a":"}`, `{1:2}`} {
		if err := rawjson.EachMember([]byte(text), func(rawjson.Text, []byte) bool { return true }); err == nil {
			t.Errorf("%q has members", text)
		}
	}
	for _, text := range []string{``, ` `, `1`, `"["`, `[`, `[1`, `[1,`, `[,1]`, `[1 2]`, `["]`, `[}]`, `[[]`} {
		if err := rawjson.EachElement([]byte(text), func([]byte) bool { return true }); err == nil {
			t.Errorf("%q has elements", text)
		}
	}
}

func TestGet(t *testing.T) {
	value := []byte(` {"a":{"\u0062":[1], "c":null},"a\"":2,"":{"":3}} `)
	for want, path := range map[string][]string{`[1]`: {"a", "b"}, `null`: {"a", "c"}, `2`: {`a"`}, `3`: {"", ""}, string(value): nil} {
		if got := rawjson.Get(value, path...); string(got) != want {
			t.Errorf("Get(%q) = %s, want %s", path, got, want)
		}
	}
	for _, path := range [][]string{{"b"}, {"a", "d"}, {"a", "b", "c"}, {`a\"`}, {"a", "c", ""}} {
		if got := rawjson.Get(value, path...); got != nil {
			t.Errorf("Get(%q) = %s", path, got)
		}
	}
}

func TestDuplicate(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":{},`, i)
		}
		return b.String()
	}
	for text, want := range map[string][]string{
		`{"a":[0,{"b":1,"b":2}]}`:                      {"a", "1", "b"},
		`["\ud83d",{"a/b":1,"a/b":2}]`:                 {"1", "a/b"},
		`{"\ud83d":1,"\uD83D":2}`:                      {"\xed\xa0\xbd"},
		`{` + many(40) + `"39":1}`:                     {"39"},
		`{` + many(40) + `"a":{` + many(3) + `"1":1}}`: {"a", "1"},
		`{` + many(40) + `"a":1}`:                      nil,
		`{"a":{"a":{"a":[{"a":1},{"a":2}]}}}`:          nil,
	} {
		if got := rawjson.Duplicate([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("Duplicate(%s) = %q, want %q", text, got, want)
		}
	}
}

// TestAllocations: walking and scanning allocate nothing.
func TestAllocations(t *testing.T) {
	text := []byte(`{"type":"tool_end","result":{"a":[1,{"b":null}],"c":"\ud83d\ude00"},"list":[1,2,3]}`)
	var buf [256]byte
	n := testing.AllocsPerRun(100, func() {
		rawjson.Scan(text, plainLimits)
		rawjson.ScanObject(text, plainLimits, func(_, _ rawjson.Span) bool { return true })
		for name, v := range rawjson.Members(text) {
			for range rawjson.Elements(v) {
				name.Is("x")
			}
		}
		rawjson.Get(text, "result", "a")
		rawjson.Duplicate(text)
		rawjson.AppendQuoted(buf[:0], "a\nb")
	})
	if n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
