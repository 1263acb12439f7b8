package sse

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// The sources of a cursor.
const (
	HeaderResumeFrom  = "X-Resume-From-Sequence"
	HeaderResumeAt    = "X-Resume-At"
	HeaderLastEventID = "Last-Event-ID"
	QueryLastEventID  = "lastEventId"
	QueryAfter        = "after"
)

// CursorError names the source of a malformed cursor. It does not have the value: text of clients is neither sent back nor logged.
type CursorError struct {
	Source  string // one of the constants above
	Problem string // the expected form
}

func (e *CursorError) Error() string { return fmt.Sprintf("%s: %s", e.Source, e.Problem) }

// Cursor is a client's position in one session.
type Cursor struct {
	chunk.Cursor // of the last event that it has received completely

	Epoch string // of the stream of that event, empty if the client does not send it
}

// ReadCursors reads the cursors after which the client continues, exclusive, one for each of n sessions; all are zero, the beginning, if none is given. The first
// of these that is present and not empty wins:
//
//  1. X-Resume-From-Sequence
//  2. X-Resume-At
//  3. Last-Event-ID
//  4. ?lastEventId=, which replacements of EventSource send that cannot set a header
//  5. ?after=
//
// after is last because of EventSource:
//  1. a page opens /events?after=10 from its snapshot,
//  2. it gets 11 … 57 and the connection breaks,
//  3. the browser reconnects, with the same URL and Last-Event-ID: 57.
//
// If after won, the page would get 11 … 57 twice. The two X- headers cannot come from an EventSource; they are set for one request.
//
// A value is "<seq>-<anchor>", as in the ids of events, "<seq>" or "<seq>-<epoch>", and for several sessions one of these for each, with dots:
// "17-mgj6k3gb.0.2093". It must be valid also when another one wins. The error is a *CursorError. The query has been parsed by the caller.
func ReadCursors(h http.Header, query url.Values, n int) ([]Cursor, error) {
	winner, err := readHeaders(h, n)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{QueryLastEventID, QueryAfter} {
		cursors, err := readCursors(name, query[name], n)
		if err != nil {
			return nil, err
		}
		if winner == nil {
			winner = cursors
		}
	}
	if winner == nil {
		winner = make([]Cursor, n)
	}
	return winner, nil
}

// ReadHeaderCursor is ReadCursors for one session, without the query. It reports whether there is a cursor; values in absent are none, like an empty one.
func ReadHeaderCursor(h http.Header, absent ...string) (c Cursor, ok bool, err error) {
	cursors, err := readHeaders(h, 1, absent...)
	if err != nil || cursors == nil {
		return Cursor{}, false, err
	}
	return cursors[0], true, nil
}

// readHeaders returns nil if no header has a cursor.
func readHeaders(h http.Header, n int, absent ...string) (winner []Cursor, err error) {
	for _, name := range []string{HeaderResumeFrom, HeaderResumeAt, HeaderLastEventID} {
		values := h.Values(name)
		if len(values) == 1 && slices.Contains(absent, values[0]) {
			continue
		}
		cursors, err := readCursors(name, values, n)
		if err != nil {
			return nil, err
		}
		if winner == nil {
			winner = cursors
		}
	}
	return winner, nil
}

// readCursors returns nil if the source has no cursor.
func readCursors(place string, values []string, n int) ([]Cursor, error) {
	if len(values) > 1 {
		return nil, &CursorError{Source: place, Problem: "given more than once"}
	}
	if len(values) == 0 || values[0] == "" {
		return nil, nil
	}
	cursors := make([]Cursor, 0, n)
	for part := range strings.SplitSeq(values[0], ".") {
		cursor, ok := ParseCursor(part)
		if !ok || len(cursors) == n {
			return nil, &CursorError{Source: place, Problem: wanted(n)}
		}
		cursors = append(cursors, cursor)
	}
	if len(cursors) < n {
		return nil, &CursorError{Source: place, Problem: wanted(n)}
	}
	return cursors, nil
}

func wanted(n int) string {
	if n == 1 {
		return "want a decimal sequence"
	}
	return fmt.Sprintf("want %d decimal sequences with dots between them", n)
}

// ParseCursor parses what chunk.ParseCursor does, or a sequence with a hyphen and an epoch of 11 to 16 lower-case letters and digits.
func ParseCursor(s string) (Cursor, bool) {
	if c, ok := chunk.ParseCursor(s); ok {
		return Cursor{Cursor: c}, true
	}
	seq, epoch, _ := strings.Cut(s, "-")
	c, ok := chunk.ParseCursor(seq)
	if !ok || !chunk.IsStreamEpoch(epoch) {
		return Cursor{}, false
	}
	return Cursor{Cursor: c, Epoch: epoch}, true
}
