package aisdk

// Header is the header of a response, beside what a server sets by itself.
// no-transform and X-Accel-Buffering keep what lies between from holding frames
// back.
func Header() map[string]string {
	return map[string]string{
		"Content-Type":                  "text/event-stream",
		"X-Vercel-AI-UI-Message-Stream": "v1",
		"Cache-Control":                 "no-cache, no-transform",
		"X-Accel-Buffering":             "no",
	}
}

// Comments are the one thing that says nothing to the client: Opened to be sent
// at once, KeepAlive when nothing was sent for a while.
const (
	Opened    = ": stream-open\n\n"
	KeepAlive = ": keep-alive\n\n"
)
