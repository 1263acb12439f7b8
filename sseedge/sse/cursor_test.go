package sse_test

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/sseedge/sse"
)

func TestWhichCursorWins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		query  string
		want   uint64
	}{
		{"nothing was said", nil, "", 0},
		{"an empty Last-Event-ID is as absent", http.Header{"Last-Event-Id": {""}}, "after=10", 10},
		{"a page opened with ?after= comes back by itself", http.Header{"Last-Event-Id": {"57"}}, "after=10", 57},
		{"a typed client means its header", http.Header{"Last-Event-Id": {"57"}, "X-Resume-From-Sequence": {"20"}}, "after=10", 20},
		{"the older name of that header", http.Header{"Last-Event-Id": {"57"}, "X-Resume-At": {"30"}}, "after=10", 30},
		{"both names", http.Header{"X-Resume-At": {"30"}, "X-Resume-From-Sequence": {"20"}}, "", 20},
		{"the beginning, said aloud", http.Header{"X-Resume-From-Sequence": {"0"}, "Last-Event-Id": {"57"}}, "", 0},
		{"the largest", nil, "after=9223372036854775807", math.MaxInt64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sse.Resume(tt.header, query)
			if err != nil || got != tt.want {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

// Rows H01-H20 and Q01, Q02 of the bad-input catalogue: each of them in each of
// the four places.
func TestBadCursors(t *testing.T) {
	bad := []string{
		"abc", "-1", "18446744073709551616", "9223372036854775808", "1.5", "0x10", "+5", // H01-H07
		"1 2", " 1", "1\t", strings.Repeat("9", 8<<10), "1,2", "1e3", "１２", // H09-H14
		"id: 9", "1\x00", "NaN", "1e9", "007", "00", "1_000", "٣", "-0",
	}
	for _, value := range bad {
		for _, name := range []string{sse.HeaderResumeFrom, sse.HeaderResumeAt, sse.HeaderLastEventID} {
			_, err := sse.Resume(http.Header{http.CanonicalHeaderKey(name): {value}}, nil)
			checkCursorError(t, err, name, value)
		}
		_, err := sse.Resume(nil, url.Values{"after": {value}})
		checkCursorError(t, err, sse.QueryAfter, value)
	}
}

func TestCursorGivenTwice(t *testing.T) {
	_, err := sse.Resume(http.Header{"Last-Event-Id": {"5", "5"}}, nil)
	checkCursorError(t, err, sse.HeaderLastEventID, "")
	_, err = sse.Resume(nil, url.Values{"after": {"5", "5"}})
	checkCursorError(t, err, sse.QueryAfter, "")
	// One that loses must be readable all the same.
	_, err = sse.Resume(http.Header{"X-Resume-From-Sequence": {"5"}, "Last-Event-Id": {"x"}}, nil)
	checkCursorError(t, err, sse.HeaderLastEventID, "")
}

func checkCursorError(t *testing.T, err error, place, value string) {
	t.Helper()
	cursor, ok := errors.AsType[*sse.CursorError](err)
	if !ok || cursor.Place != place {
		t.Errorf("%s %q: got %v", place, value, err)
		return
	}
	if len(value) > 3 && strings.Contains(err.Error(), value) {
		t.Errorf("%q is sent back: %v", value, err)
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "0", "1", "01", "9223372036854775807", "9223372036854775808", "１", "1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := sse.ParseID(s)
		if ok && strconv.FormatUint(n, 10) != s {
			t.Fatalf("%q was read as %d", s, n)
		}
		if !ok && n != 0 {
			t.Fatalf("%q was refused with %d", s, n)
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
