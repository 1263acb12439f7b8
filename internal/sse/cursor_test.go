package sse_test

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/sse"
)

func TestWhichCursorWins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		query  string
		want   chunk.Seq
	}{
		{"nothing was said", nil, "", 0},
		{"an empty Last-Event-ID is as absent", http.Header{"Last-Event-Id": {""}}, "after=10", 10},
		{"a page opened with ?after= comes back by itself", http.Header{"Last-Event-Id": {"57"}}, "after=10", 57},
		{"a typed client means its header", http.Header{"Last-Event-Id": {"57"}, "X-Resume-From-Sequence": {"20"}}, "after=10", 20},
		{"the older name of that header", http.Header{"Last-Event-Id": {"57"}, "X-Resume-At": {"30"}}, "after=10", 30},
		{"both names", http.Header{"X-Resume-At": {"30"}, "X-Resume-From-Sequence": {"20"}}, "", 20},
		{"a replacement of EventSource comes back", nil, "after=10&lastEventId=57", 57},
		{"both replacements", http.Header{"Last-Event-Id": {"58"}}, "lastEventId=57", 58},
		{"the beginning, said aloud", http.Header{"X-Resume-From-Sequence": {"0"}, "Last-Event-Id": {"57"}}, "", 0},
		{"the largest", nil, "after=9223372036854775807", math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sse.ReadCursors(tt.header, query, 1)
			if err != nil || !slices.Equal(got, []sse.Cursor{bare(tt.want)}) {
				t.Errorf("got %v, %v, want %d", got, err, tt.want)
			}
		})
	}
}

// Rows H01-H20 and Q01, Q02 of the list of invalid inputs, each in each of the four places.
func TestBadCursors(t *testing.T) {
	bad := []string{
		"abc", "-1", "18446744073709551616", "9223372036854775808", "1.5", "0x10", "+5", // H01-H07
		"1 2", " 1", "1\t", strings.Repeat("9", 8<<10), "1,2", "1e3", "１２", // H09-H14
		"id: 9", "1\x00", "NaN", "1e9", "007", "00", "1_000", "٣", "-0",
		"5-", "5-K3F", "5-0", "5-0a", "5-a b", "5-a-b", "-a", "5-" + strings.Repeat("a", 17), "5.6", "5.", ".5",
	}
	for _, value := range bad {
		for _, name := range []string{sse.HeaderResumeFrom, sse.HeaderResumeAt, sse.HeaderLastEventID} {
			_, err := sse.ReadCursors(http.Header{http.CanonicalHeaderKey(name): {value}}, nil, 1)
			checkCursorError(t, err, name, value)
		}
		for _, name := range []string{sse.QueryLastEventID, sse.QueryAfter} {
			_, err := sse.ReadCursors(nil, url.Values{name: {value}}, 1)
			checkCursorError(t, err, name, value)
		}
	}
}

func TestCursorGivenTwice(t *testing.T) {
	_, err := sse.ReadCursors(http.Header{"Last-Event-Id": {"5", "5"}}, nil, 1)
	checkCursorError(t, err, sse.HeaderLastEventID, "")
	_, err = sse.ReadCursors(nil, url.Values{"after": {"5", "5"}}, 1)
	checkCursorError(t, err, sse.QueryAfter, "")
	// A cursor that is not used must be valid, too.
	_, err = sse.ReadCursors(http.Header{"X-Resume-From-Sequence": {"5"}, "Last-Event-Id": {"x"}}, nil, 1)
	checkCursorError(t, err, sse.HeaderLastEventID, "")
}

func checkCursorError(t *testing.T, err error, place, value string) {
	t.Helper()
	cursor, ok := errors.AsType[*sse.CursorError](err)
	if !ok || cursor.Source != place {
		t.Errorf("%s %q: got %v", place, value, err)
		return
	}
	if len(value) > 3 && strings.Contains(err.Error(), value) {
		t.Errorf("%q is sent back: %v", value, err)
	}
}

func bare(seq chunk.Seq) sse.Cursor { return sse.Cursor{Cursor: chunk.Cursor{Seq: seq}} }

func withEpoch(seq chunk.Seq, epoch string) sse.Cursor {
	return sse.Cursor{Cursor: chunk.Cursor{Seq: seq}, Epoch: epoch}
}

func TestCursorWithAnchorOrEpoch(t *testing.T) {
	for value, want := range map[string]sse.Cursor{
		"57-mgj6k3gb":         {Cursor: chunk.Cursor{Seq: 57, Anchor: 1_760_000_000_123}},
		"57-dk3p9x0q1a2b":     withEpoch(57, "dk3p9x0q1a2b"),
		"57-00000000000":      withEpoch(57, "00000000000"),
		"57-dk3p9x0q1a2b3c4d": withEpoch(57, "dk3p9x0q1a2b3c4d"),
	} {
		got, err := sse.ReadCursors(http.Header{"Last-Event-Id": {value}}, nil, 1)
		if err != nil || !slices.Equal(got, []sse.Cursor{want}) {
			t.Errorf("%s: got %v, %v", value, got, err)
		}
	}
}

func TestCursorsOfSeveralSessions(t *testing.T) {
	got, err := sse.ReadCursors(http.Header{"Last-Event-Id": {"17-dk3p9x0q1a2b.0.2093-mgj6k3gb"}}, url.Values{"after": {"1.2.3"}}, 3)
	if want := []sse.Cursor{withEpoch(17, "dk3p9x0q1a2b"), {}, {Cursor: chunk.Cursor{Seq: 2093, Anchor: 1_760_000_000_123}}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	got, err = sse.ReadCursors(nil, nil, 3)
	if want := make([]sse.Cursor, 3); err != nil || !slices.Equal(got, want) {
		t.Errorf("without a word: got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"1", "1.2", "1.2.3.4", "1.2.", ".1.2", "1..2", "1.2.x", "1,2,3", strings.Repeat("1.", 5000)} {
		_, err := sse.ReadCursors(nil, url.Values{"after": {bad}}, 3)
		checkCursorError(t, err, sse.QueryAfter, bad)
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"", "0", "1", "01", "9223372036854775807", "9223372036854775808", "１", "1\n", "1-a", "1-", "1-A", "1-a-a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := sse.ParseCursor(s)
		again := c.String()
		if c.Epoch != "" {
			again += "-" + c.Epoch
		}
		if ok && again != s {
			t.Fatalf("%q was read as %+v", s, c)
		}
		if !ok && c != (sse.Cursor{}) {
			t.Fatalf("%q was refused with %+v", s, c)
		}
	})
}

func TestAccepts(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                     true,
		"*/*":                                  true,
		"text/event-stream":                    true,
		"Text/Event-Stream":                    true,
		"text/*":                               true,
		"application/json":                     false,
		"application/json, text/event-stream":  true,
		"application/json, */*;q=0.1":          true,
		"text/event-stream;q=0, */*":           false,
		"text/event-stream;q=0.0":              false,
		"*/*;q=0":                              false,
		"text/html,application/xhtml+xml":      false,
		"text/event-stream;charset=utf-8":      true,
		"garbage; ;;, , text/event-stream":     true,
		"text/event-stream;q=much":             false,
		strings.Repeat("a/b, ", 1000) + "*/*":  true,
		"text/event-stream\r\nX-Injected: yes": false,
	} {
		h := http.Header{}
		if accept != "" {
			h.Set("Accept", accept)
		}
		if got := sse.Accepts(h); got != want {
			t.Errorf("Accept %q: got %t, want %t", accept, got, want)
		}
	}
}

func TestIsEventSource(t *testing.T) {
	browser := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	if !sse.IsEventSource(browser) {
		t.Error("a browser's EventSource is not known")
	}
	for _, other := range []http.Header{{}, {"Accept": {"*/*"}}, {"Accept": {"text/event-stream"}}} {
		if sse.IsEventSource(other) {
			t.Errorf("%v is taken for an EventSource", other)
		}
	}
}
