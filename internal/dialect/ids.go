package dialect

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxID limits the ids of messages, calls and approvals that a client sends, in characters, CS-15.
const MaxID = 256

// FitsID reports whether an id of a client is within MaxID.
func FitsID(id string) bool { return len(id) <= 4*MaxID && utf8.RuneCountInString(id) <= MaxID }

// CallID is the id of a call as clients have it: behind the session of its sub-agent, percent-encoded as a segment of a path, if it is not one of the session's
// own agent, which is "".
func CallID(session, call string) string {
	if session == "" {
		return call
	}
	return url.PathEscape(session) + "/" + call
}

// ShownCallID returns the id under which clients have the next call of an answer, and adds it to the used ones: a call with the id of an earlier one has a number behind it.
func ShownCallID(used map[string]bool, id string) string {
	shown := id
	for n := 2; used[shown]; n++ {
		shown = id + "_" + strconv.Itoa(n)
	}
	used[shown] = true
	return shown
}

// SplitCallID is the inverse of CallID. isSession tells the session of a sub-agent from another text before a slash.
func SplitCallID(id string, isSession func(string) bool) (session, call string) {
	if segment, c, ok := strings.Cut(id, "/"); ok {
		if s, err := url.PathUnescape(segment); err == nil && isSession(s) {
			return s, c
		}
	}
	return "", id
}
