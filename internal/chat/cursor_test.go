package chat

import (
	"net/http"
	"strings"
	"testing"
)

// CS-1 and CS-2: the header with the cursor.
func TestCursor(t *testing.T) {
	const absent, invalid = -1, -2
	for _, row := range []struct {
		rule string
		h    http.Header
		want int
	}{
		{"CS-1: the first wins", http.Header{"X-Resume-From-Sequence": {"1"}, "X-Resume-At": {"2"}, "Last-Event-Id": {"3"}}, 1},
		{"CS-1: then the second", http.Header{"X-Resume-At": {"2"}, "Last-Event-Id": {"3"}}, 2},
		{"CS-1: then that of an EventSource", http.Header{"Last-Event-Id": {"3"}}, 3},
		{"no header", nil, absent},
		{"CS-2: empty", http.Header{"X-Resume-From-Sequence": {""}, "Last-Event-Id": {"3"}}, 3},
		{"CS-2: undefined", http.Header{"X-Resume-From-Sequence": {"undefined"}, "Last-Event-Id": {"3"}}, 3},
		{"CS-2: null", http.Header{"X-Resume-From-Sequence": {"null"}}, absent},
		{"a word", http.Header{"X-Resume-From-Sequence": {"abc"}}, invalid},
		{"negative", http.Header{"X-Resume-From-Sequence": {"-3"}}, invalid},
		{"not a number", http.Header{"X-Resume-At": {"NaN"}}, invalid},
		{"too large", http.Header{"Last-Event-Id": {"9223372036854775808"}}, invalid},
		{"invalid anchor", http.Header{"Last-Event-Id": {"7-K"}}, invalid},
		{"cursors of two sessions", http.Header{"Last-Event-Id": {"7.8"}}, invalid},
		{"given twice", http.Header{"Last-Event-Id": {"7", "7"}}, invalid},
		{"invalid where another wins", http.Header{"X-Resume-From-Sequence": {"1"}, "Last-Event-Id": {"abc"}}, invalid},
		{"with an anchor", http.Header{"X-Resume-From-Sequence": {"7-mgj6k3gb"}}, 7},
		{"with an epoch", http.Header{"Last-Event-Id": {"7-dk3p9x0q1a2b"}}, 7},
		{"zero is a cursor", http.Header{"X-Resume-From-Sequence": {"0"}}, 0},
	} {
		t.Run(row.rule, func(t *testing.T) {
			got := absent
			switch c, ok, p := readCursor(row.h); {
			case p != nil:
				got = invalid
			case ok:
				got = int(c.Seq)
			}
			if got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
}

// A GET with a malformed cursor is refused, with the code of the event streams, and nothing of the cursor is repeated. A POST ignores it, CS-4.
func TestMalformedCursor(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	malformed := http.Header{"X-Resume-From-Sequence": {"abc"}}
	want := `400 {"error":"the cursor cannot be read","code":"BAD_CURSOR"}`
	for _, path := range []string{"", "/stream"} {
		if got := e.get(path, malformed); got != want {
			t.Errorf("GET %s: %s, want %s", path, got, want)
		}
		if got := e.get(path, http.Header{"X-Resume-From-Sequence": {"undefined"}}); got != "204" {
			t.Errorf("GET %s with undefined: %s", path, got)
		}
	}
	if got := e.do(http.MethodPost, "", "{}", malformed); strings.Contains(got, "BAD_CURSOR") {
		t.Errorf("POST: %s", got)
	}
}
