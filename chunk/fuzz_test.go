package chunk_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// FuzzDecode: Decode returns on any input. An accepted chunk is encoded as one line that decodes to the same chunk, and a second JSON reader reads the same
// value. An error is a FieldError whose text is one line.
func FuzzDecode(f *testing.F) {
	for _, s := range chunktest.All() {
		text, err := s.Chunk.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, tt := range refusals {
		if len(tt.input) < 4096 {
			f.Add([]byte(tt.input))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := chunk.Decode(text)
		var members chunk.Members
		if fault := members.Read(text); (fault == nil) != (err == nil) || err != nil && fault.Error() != err.Error() {
			t.Fatalf("decoded %v, read %v", err, fault)
		}
		if err != nil {
			if _, ok := errors.AsType[*chunk.FieldError](err); !ok || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("%q", err)
			}
			return
		}
		written, err := c.AppendJSON(nil)
		if err != nil || bytes.ContainsAny(written, "\n\r") {
			t.Fatalf("written as %q, %v", written, err)
		}
		back, err := chunk.Decode(written)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Fatalf("%s is read as %+v, %v, was %+v", written, back, err, c)
		}
		if typ, _ := members.Type(); typ != c.Type() || bytes.ContainsAny(members.JSON(), "\n\r") {
			t.Fatalf("read as %s: %q", typ, members.JSON())
		}
		for _, shape := range append(chunk.Schema(c.Type()), chunk.MemberSchema{Name: "agentId"}, chunk.MemberSchema{Name: "step"}) {
			was, present := mustParse(t, text).(jsonObject)[key(shape.Name)]
			if v := members.Get(shape.Name); present != (v != nil) || present && !sameJSON(mustParse(t, v), was) {
				t.Fatalf("%s of %s is %s", shape.Name, text, v)
			}
		}
		was, is := mustParse(t, text).(jsonObject), mustParse(t, written).(jsonObject)
		for name, v := range was {
			if !sameJSON(is[name], v) {
				t.Fatalf("%s is written as %s", text, written)
			}
		}
	})
}

// FuzzStrings: any bytes are either WTF-8 and stay exact, or are rejected; Concat and Split accept all bytes.
func FuzzStrings(f *testing.F) {
	for _, s := range []string{"", "a", "😀", "\xed\xa0\xbd", "\xed\xb8\x80", "\xed\xa0", "\xed", "\xff", "\x00\"\\\n", "\xed\x9f\xbf", "\xee\x80\x80"} {
		f.Add(s, s, 200)
	}
	f.Fuzz(func(t *testing.T, a, b string, limit int) {
		a, b = a[:min(len(a), 500)], b[:min(len(b), 500)] // the following is quadratic
		joined := chunk.Concat(a, b)
		if len(joined) > len(a)+len(b) {
			t.Fatalf("Concat(%q, %q) = %q", a, b, joined)
		}
		c := chunktest.Of(chunk.TextDelta{Delta: joined})
		text, err := c.AppendJSON(nil)
		if err != nil {
			if !errors.Is(err, chunk.ErrInvalid) || chunk.Split(c, limit) != nil {
				t.Fatalf("%q: %v", joined, err)
			}
			return
		}
		back, err := chunk.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := back.AppendJSON(nil)
		if err != nil || !sameJSON(mustParse(t, again), mustParse(t, text)) {
			t.Fatalf("%s, then %s, %v", text, again, err)
		}
		whole := ""
		for _, part := range chunk.Split(back, limit) {
			whole = chunk.Concat(whole, part.Body.(chunk.TextDelta).Delta)
			if n := size(t, part); n > limit {
				t.Fatalf("a part of %d bytes, limit %d", n, limit)
			}
		}
		if whole != "" && whole != back.Body.(chunk.TextDelta).Delta {
			t.Fatalf("parts join to %q", whole)
		}
	})
}
