package chunk

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// FuzzPlainOutline compares both ways of reading an outline with each other and with a tokenizer: accepted inputs, and members.
func FuzzPlainOutline(f *testing.F) {
	for _, seed := range []string{
		`{"type":"tool_start","agentId":"s","toolCallId":"c","arguments":{"a":[1,{"b":null}],"c":"\ud83d\ude00"}}`,
		" {\"a\" : 1 ,\n\"b\":[ ],\"c\":{ }\t}\r", `{"a":{"b":1,"b":2}}`, `{"a":"\ud83d"}`, `{"\u0061":1}`, `[1]`, `{"a":1}{}`, "{\"a\":\"\xff\"}",
		`{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, `{"` + strings.Repeat("n", 200) + `":0}`,
		`{"\ud83d":1,"\uD83D":2}`, `{"\ud83d":1,"\ud83e":2}`, `{"a":1,"\u0061":2}`, `{"` + strings.Repeat(`\u006e`, 129) + `":0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = rawjson.TrimSpace(text)
		plain, _, isPlain := scan(text, &plainLimits, nil)
		got, err := outlineOf(text, nil)
		want, ok := tokenize(text)
		if ok != (err == nil) || isPlain && !ok {
			t.Fatalf("%q: %v, plain %v, want acceptance %v", text, err, isPlain, ok)
		}
		if !ok {
			return
		}
		if !sameMembers(got.members, want) || isPlain && !sameMembers(plain.members, want) || got.unescaped != isPlain {
			t.Fatalf("%q: %+v, %+v, want %+v", text, got, plain, want)
		}
		if got.newline != bytes.ContainsAny(text, "\r\n") {
			t.Fatalf("%q: line break %v", text, got.newline)
		}
	})
}

func sameMembers(a, b []member) bool {
	same := len(a) == len(b)
	for i := range a {
		same = same && bytes.Equal(a[i].name, b[i].name) && bytes.Equal(a[i].value, b[i].value)
	}
	return same
}

// tokenize returns the members of an object, and whether it is valid and within the limits.
func tokenize(text []byte) (members []member, ok bool) {
	lenient := []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}
	if !utf8.Valid(text) || !jsontext.Value(text).IsValid(lenient...) || text[0] != '{' {
		return nil, false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text), lenient...)
	values, names := 0, []map[string]bool{nil}
	for kind := dec.PeekKind(); kind > 0; kind = dec.PeekKind() {
		in, n := dec.StackIndex(dec.StackDepth())
		isName := in == '{' && n%2 == 0
		outermost := dec.StackDepth() == 1
		switch {
		case kind == '{' || kind == '[':
			if outermost {
				members[len(members)-1].value = text[dec.InputOffset():] // shortened below
			}
			values++
			names = append(names, map[string]bool{})
		case kind == '}' || kind == ']':
			names = names[:len(names)-1]
		case isName:
			raw, err := dec.ReadValue()
			if err != nil {
				return nil, false
			}
			name := string(rawjson.Text(raw).Bytes())
			if seen := names[len(names)-1]; seen[name] || len(name) > MaxName {
				return nil, false
			} else {
				seen[name] = true
			}
			if outermost {
				members = append(members, member{name: bytes.Clone(raw)})
			}
			continue
		default:
			values++
			raw, err := dec.ReadValue()
			if err != nil {
				return nil, false
			}
			if outermost {
				members[len(members)-1].value = bytes.Clone(raw)
			}
			continue
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, false
		}
		if depth := dec.StackDepth(); depth > MaxDepth {
			return nil, false
		} else if depth == 1 && len(members) > 0 && (kind == '}' || kind == ']') {
			m := &members[len(members)-1]
			m.value = m.value[:len(m.value)-(len(text)-int(dec.InputOffset()))]
			m.value = bytes.TrimLeft(m.value, ": \t\r\n")
		}
	}
	return members, values <= MaxValues
}
