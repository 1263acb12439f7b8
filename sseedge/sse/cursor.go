package sse

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// The places where a client may say how far it came.
const (
	HeaderResumeFrom  = "X-Resume-From-Sequence"
	HeaderResumeAt    = "X-Resume-At"
	HeaderLastEventID = "Last-Event-ID"
	QueryAfter        = "after"
)

// CursorError names the place of a cursor that cannot be read. It does not
// carry the value: what a stranger sent is not sent back, nor logged raw.
type CursorError struct {
	Place   string // one of the constants above
	Problem string // what was expected, in our words
}

func (e *CursorError) Error() string { return fmt.Sprintf("%s: %s", e.Place, e.Problem) }

// Resume reads the sequence after which the client wants to go on, exclusive; 0
// is the beginning, also when nothing was said. The first of these that is
// present and not empty wins:
//
//  1. X-Resume-From-Sequence
//  2. X-Resume-At
//  3. Last-Event-ID
//  4. ?after=
//
// The query is last for the sake of EventSource:
//  1. a page opens /events?after=10 from its snapshot,
//  2. it sees 11 … 57 and the connection breaks,
//  3. the browser comes back by itself, with the same URL and Last-Event-ID: 57.
//
// If the query won, the page would see 11 … 57 twice. The two X- headers cannot
// come from an EventSource; who sets them means them, for this request.
//
// Every value that is present must be a decimal number below 2^63 without sign
// or leading zero, given once, also when another one wins. The error is a
// *CursorError. The query has been parsed by the caller.
func Resume(h http.Header, query url.Values) (uint64, error) {
	var (
		cursor uint64
		found  bool
	)
	for _, place := range []struct {
		name   string
		values []string
	}{
		{HeaderResumeFrom, h.Values(HeaderResumeFrom)},
		{HeaderResumeAt, h.Values(HeaderResumeAt)},
		{HeaderLastEventID, h.Values(HeaderLastEventID)},
		{QueryAfter, query[QueryAfter]},
	} {
		n, present, err := readCursor(place.name, place.values)
		if err != nil {
			return 0, err
		}
		if present && !found {
			cursor, found = n, true
		}
	}
	return cursor, nil
}

func readCursor(place string, values []string) (n uint64, present bool, err error) {
	if len(values) > 1 {
		return 0, false, &CursorError{Place: place, Problem: "given more than once"}
	}
	if len(values) == 0 || values[0] == "" {
		return 0, false, nil
	}
	n, ok := ParseID(values[0])
	if !ok {
		return 0, false, &CursorError{Place: place, Problem: "want a decimal sequence"}
	}
	return n, true, nil
}

// ParseID reads an event id: a decimal number below 2^63, written as we write
// it, so that one position has one id.
func ParseID(s string) (uint64, bool) {
	if s == "" || len(s) > 19 || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, false
	}
	return uint64(n), true
}
