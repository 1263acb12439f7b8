package aisdk_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
)

func TestAppendSanitized(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:                                                  `{"a":1}`,
		`"__proto__"`:                                              `"__proto__"`,
		`["__proto__",{"x":"__proto__"}]`:                          `["__proto__",{"x":"__proto__"}]`,
		`{"__proto__":{}}`:                                         `{"$__proto__":{}}`,
		`{"$__proto__":1,"__proto__" : 2}`:                         `{"$$__proto__":1,"$__proto__" : 2}`,
		`[{"a":{"\u005f_proto__":1e400}}]`:                         `[{"a":{"$\u005f_proto__":1e400}}]`,
		`{"constructor":{"prototype":1}}`:                          `{"constructor":{"$prototype":1}}`,
		`{"constructor":{"$prototype":1}}`:                         `{"constructor":{"$$prototype":1}}`,
		`{"constructor":[{"prototype":1}]}`:                        `{"constructor":[{"prototype":1}]}`,
		`{"constructor":{"a":{"prototype":1}}}`:                    `{"constructor":{"a":{"prototype":1}}}`,
		`{"c\u006fnstructor" :{"a":[],"prototyp\u0065":"\ud83d"}}`: `{"c\u006fnstructor" :{"a":[],"$prototyp\u0065":"\ud83d"}}`,
		`{"constructor":1,"prototype":2}`:                          `{"constructor":1,"prototype":2}`,
		`{"constructor":"x","b":{"prototype":2}}`:                  `{"constructor":"x","b":{"prototype":2}}`,
		`{"__proto___":1,"\"__proto__":2}`:                         `{"__proto___":1,"\"__proto__":2}`,
	} {
		if got := string(aisdk.AppendSanitized([]byte("x"), []byte(in))); got != "x"+want {
			t.Errorf("%s became %s, want %s", in, got[1:], want)
		}
	}
}

// FuzzAppendSanitized checks that the result is JSON without the forbidden names and otherwise unchanged.
func FuzzAppendSanitized(f *testing.F) {
	f.Add(`{"__proto__":{"constructor":{"prototype":[1]}}}`)
	f.Add(`{"constructor":{"\u0070rototype":1,"$prototype":2}}`)
	f.Fuzz(func(t *testing.T, in string) {
		out := aisdk.AppendSanitized(nil, []byte(in)) // must not panic on any input
		if !json.Valid([]byte(in)) {
			return
		}
		var got, want any
		if err := json.Unmarshal(out, &got); err != nil {
			if _, large := errors.AsType[*json.UnmarshalTypeError](err); large {
				return // a number that float64 cannot represent
			}
			t.Fatalf("%s became %s: %v", in, out, err)
		}
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, renamed(want, false)) {
			t.Fatalf("%s became %s", in, out)
		}
	})
}

// renamed applies the rule to decoded values.
func renamed(v any, constructed bool) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = renamed(v[i], false)
		}
	case map[string]any:
		out := make(map[string]any)
		for name, value := range v {
			value = renamed(value, name == "constructor")
			bare := strings.TrimLeft(name, "$")
			if bare == "__proto__" || constructed && bare == "prototype" {
				name = "$" + name
			}
			out[name] = value
		}
		return out
	}
	return v
}

// TestSpelling checks that frames have the short escapes of the stored form.
func TestSpelling(t *testing.T) {
	m := aisdk.New("a\n\t\"\b", aisdk.Options{})
	if got, want := string(m.Append(nil, record(1, chunk.StepStart{}))), `"messageId":"a\n\t\"\u0008"`; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}
