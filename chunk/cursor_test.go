package chunk_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

func TestCursorForm(t *testing.T) {
	stored := time.UnixMilli(1_760_000_000_123)
	for _, tt := range []struct {
		rec  chunk.Record
		want string
	}{
		{chunk.Record{}, "0"},
		{chunk.Record{Seq: 42}, "42"},
		{chunk.Record{Seq: 42, StoredAt: stored}, "42-mgj6k3gb"},
		{chunk.Record{Seq: 42, StoredAt: stored.Add(999 * time.Microsecond)}, "42-mgj6k3gb"},
		{chunk.Record{Seq: 42, StoredAt: stored.Add(time.Millisecond)}, "42-mgj6k3gc"},
	} {
		if got := tt.rec.Cursor().String(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.rec, got, tt.want)
		}
	}
	for _, bad := range []string{"", "-", "42-", "-mgj6k3gb", "42-0", "42-0a", "42-MGJ", "42-a-b", "42--a", "042-a", "+42", "42-+a", "42-12345678901", "9223372036854775808", "a-a"} {
		if got, ok := chunk.ParseCursor(bad); ok || got != (chunk.Cursor{}) {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

// Each cursor has one form, and that form is read as that cursor.
func TestCursorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := chunk.Cursor{
			Seq:    chunk.Seq(rapid.Uint64Range(0, 1<<63-1).Draw(t, "seq")),
			Anchor: chunk.Anchor(rapid.Int64Range(0, 3_656_158_440_062_975).Draw(t, "anchor")),
		}
		got, ok := chunk.ParseCursor(want.String())
		if !ok || got != want {
			t.Errorf("%q was read as %+v, want %+v", want, got, want)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[0-9]{1,20}(-[0-9a-zA-Z]{0,11})?`).Draw(t, "text")
		if c, ok := chunk.ParseCursor(s); ok && c.String() != s {
			t.Errorf("%q was read as %+v", s, c)
		}
	})
}
