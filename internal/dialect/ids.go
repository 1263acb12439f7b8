package dialect

import (
	"strings"
	"unicode/utf8"
)

// MaxID limits the ids of messages, calls and approvals that a client sends, in characters, CS-15.
const MaxID = 256

// FitsID reports whether an id of a client is within MaxID.
func FitsID(id string) bool { return len(id) <= 4*MaxID && utf8.RuneCountInString(id) <= MaxID }

// SplitCallID splits the id of a call as clients have it: the session of the sub-agent of the call, "" for the session's own agent, and the id of the call there.
func SplitCallID(id string, isSession func(string) bool) (session, call string) {
	if s, c, ok := strings.Cut(id, "/"); ok && isSession(s) {
		return s, c
	}
	return "", id
}
