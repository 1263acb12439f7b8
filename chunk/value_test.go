package chunk_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

func TestValueOf(t *testing.T) {
	type part struct {
		A string  `json:"a,omitempty"`
		B []int   `json:"b"`
		C *string `json:"c"`
	}
	tests := []struct {
		name string
		in   any
		want string
		err  error
	}{
		{"nil", nil, `null`, nil},
		{"struct", part{A: "<a>"}, `{"a":"<a>","b":null,"c":null}`, nil},
		{"map in order", map[string]int{"b": 2, "a": 1}, `{"a":1,"b":2}`, nil},
		{"value", chunk.Value(`{ "n": 1.0 }`), "", nil},
		{"number", json.Number("12345678901234567890"), `12345678901234567890`, nil},
		{"zero number", []json.Number{""}, `[0]`, nil},
		{"as encoding/json writes it", map[string]any{"b": []byte("x"), "d": time.Second, "t": time.Unix(0, 0).UTC(), "m": map[int]bool{1: true}, "f": 1e21, "n": []any(nil)},
			`{"b":"eA==","d":1000000000,"f":1e+21,"m":{"1":true},"n":null,"t":"1970-01-01T00:00:00Z"}`, nil},
		{"more members than a record may have", json.RawMessage("[0" + strings.Repeat(",0", 50_000) + "]"), "[0" + strings.Repeat(",0", 50_000) + "]", nil},
		{"two members of one name", json.RawMessage(`{"a":1,"a":2}`), "", chunk.ErrInvalid},
		{"long name", map[string]int{strings.Repeat("x", 129): 1}, "", chunk.ErrInvalid},
		{"too deep", json.RawMessage(strings.Repeat("[", 40) + strings.Repeat("]", 40)), "", chunk.ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chunk.ValueOf(tt.in)
			if !errors.Is(err, tt.err) || tt.want != "" && string(got) != tt.want {
				t.Errorf("ValueOf = %s, %v, want %s, %v", got, err, tt.want, tt.err)
			}
		})
	}
	for name, bad := range map[string]any{"text that is not UTF-8": "\xff", "lone surrogate": "\xed\xa0\xbd", "function": func() {}} {
		if got, err := chunk.ValueOf(bad); err == nil {
			t.Errorf("ValueOf(%s) = %s", name, got)
		}
	}
}

func TestValueIsNull(t *testing.T) {
	for text, want := range map[string]bool{"": true, "null": true, "\tnull": true, "0": false, `"null"`: false, "[]": false} {
		if v := chunk.Value(text); v.IsNull() != want {
			t.Errorf("IsNull of %q is %v", text, !want)
		}
	}
	if got := chunk.Value(nil).String(); got != "null" {
		t.Errorf("zero Value is %s", got)
	}
}

// Values and numbers keep their text in encoding/json.
func TestValuesInEncodingJSON(t *testing.T) {
	type holder struct {
		V    chunk.Value  `json:"v"`
		P    *chunk.Value `json:"p"`
		Zero chunk.Value  `json:"zero"`
		N    chunk.Number `json:"n"`
	}
	text := `{"v":{"a":1.0,"b":12345678901234567890},"p":[1,2],"zero":null,"n":1.50}`
	var h holder
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatal(err)
	}
	h.Zero = nil
	if got, err := json.Marshal(h); err != nil || string(got) != text {
		t.Errorf("%s, %v, want %s", got, err, text)
	}
	for _, bad := range []string{`{"n":"1"}`, `{"n":true}`, `{"n":1e999}`} {
		if err := json.Unmarshal([]byte(bad), &h); !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if got, err := json.Marshal(chunk.Number("")); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("zero Number is written as %s, %v", got, err)
	}
}

func TestNumber(t *testing.T) {
	tests := []struct {
		n     chunk.Number
		f     float64
		isNum bool
	}{
		{"17", 17, true},
		{"-0", 0, true},
		{"1.5", 1.5, true},
		{"1e3", 1000, true},
		{"12345678901234567890", 12345678901234567890, true},
		{"", 0, false},
		{"x", 0, false},
	}
	for _, tt := range tests {
		if f, ok := tt.n.Float64(); ok != tt.isNum || ok && f != tt.f {
			t.Errorf("Float64 of %q: %v, %v", tt.n, f, ok)
		}
	}
}

// A Chunk is a json.Marshaler and a json.Unmarshaler.
func TestChunkInEncodingJSON(t *testing.T) {
	for _, s := range chunktest.All() {
		text, err := json.Marshal([]chunk.Chunk{s.Chunk})
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		var back []chunk.Chunk
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		want, _ := s.Chunk.AppendJSON(nil)
		if got, err := back[0].AppendJSON(nil); err != nil || !sameJSON(mustParse(t, got), mustParse(t, want)) {
			t.Errorf("%s came back as %s, %v", s.Name, got, err)
		}
	}
	c := chunktest.Minimal(chunk.TypeStepStart)
	kept := c
	if err := json.Unmarshal([]byte(`{"type":"step_start"}`), &c); !errors.Is(err, chunk.ErrInvalid) || !reflect.DeepEqual(c, kept) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTypeOfTheZeroChunk(t *testing.T) {
	if got := (chunk.Chunk{}).Type(); got != "" {
		t.Errorf("Type = %q", got)
	}
}
