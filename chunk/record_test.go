package chunk_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
)

// An event id parses to the values that it was built from, and each record has only one.
func TestEventID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := chunk.Epoch(rapid.Uint64Range(1, math.MaxUint64).Draw(t, "epoch"))
		o := chunk.Ordinal(rapid.Uint64Range(1, math.MaxUint64).Draw(t, "ordinal"))
		gotE, gotO, ok := chunk.ParseEventID(chunk.EventID(e, o))
		if !ok || gotE != e || gotO != o {
			t.Fatalf("%s is read as %d, %d, %v", chunk.EventID(e, o), gotE, gotO, ok)
		}
	})
	for _, bad := range []string{"", "-", "1", "1-", "-1", "0-1", "1-0", "01-1", "1-01", "+1-1", "1-1-1", "1 -1", "1-18446744073709551616", "a-b", "１-1"} {
		if e, o, ok := chunk.ParseEventID(bad); ok {
			t.Errorf("%q is read as %d, %d", bad, e, o)
		}
	}
}

func TestSession(t *testing.T) {
	root := chunk.RootSession("acme", "r1")
	child := root.Child("c1")
	if !root.IsRoot() || child.IsRoot() || child.Tree() != root || root.Tree() != root {
		t.Errorf("root %+v, child %+v", root, child)
	}
	if got := child.Child("c2").String(); got != "/acme/r1/c2" {
		t.Errorf("String = %s", got)
	}
}

// A record decodes to the chunk in its data.
func TestRecord(t *testing.T) {
	for _, r := range chunktest.Records("tools", chunk.RootSession("t", "root")) {
		if r.Position() != (chunk.Position{Seq: r.Seq, Ordinal: r.Ordinal}) {
			t.Errorf("position of %d is %+v", r.Seq, r.Position())
		}
		if c, err := r.Decode(); err != nil || c.Type() != r.Type {
			t.Errorf("record %d of type %s is read as %s, %v", r.Seq, r.Type, c.Type(), err)
		}
	}
}

func TestControlAndTerminalTypes(t *testing.T) {
	control, terminal := 0, 0
	for _, typ := range chunktest.Types() {
		if typ.Control() {
			control++
		}
		if typ.Terminal() {
			terminal++
		}
		if typ.Terminal() && !typ.Control() {
			t.Errorf("%s ends a stream and is no control record", typ)
		}
	}
	if control != 6 || terminal != 2 {
		t.Errorf("%d control and %d terminal types, want 6 and 2", control, terminal)
	}
}

func TestErrorTextsAndSentinels(t *testing.T) {
	s := chunk.RootSession("t", "s")
	tests := []struct {
		err  error
		is   error
		text string
	}{
		{&chunk.FieldError{Want: "JSON", Got: "x"}, chunk.ErrInvalid, "chunk: want JSON, got x"},
		{&chunk.FieldError{Type: "error", Field: "errorDetail/message", Want: "a string"}, chunk.ErrInvalid, "error.errorDetail/message: want a string"},
		{&chunk.FieldError{Field: "a\nb", Want: "a string"}, chunk.ErrInvalid, `chunk."a\nb": want a string`},
		{&chunk.TruncatedError{Session: s, Reason: chunk.TruncatedGap, After: 7}, chunk.ErrTruncated, "session /t/s/s after 7: gap: part of the session is not in the log"},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.is) || tt.err.Error() != tt.text {
			t.Errorf("%q, want %q", tt.err, tt.text)
		}
		if errors.Is(tt.err, errors.New("the source broke")) {
			t.Errorf("%v matches an unrelated error", tt.err)
		}
	}
}
