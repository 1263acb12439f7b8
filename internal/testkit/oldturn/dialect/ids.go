package dialect

import "net/url"

// CallID is the id of a call as clients have it: behind the session of its sub-agent, percent-encoded as a segment of a path, if it is not one of the session's
// own agent, which is "".
func CallID(session, call string) string {
	if session == "" {
		return call
	}
	return url.PathEscape(session) + "/" + call
}
