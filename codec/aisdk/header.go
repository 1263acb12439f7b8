package aisdk

// Header returns the headers of a response, in addition to those that the server sets. no-transform and X-Accel-Buffering keep proxies from buffering
// frames.
func Header() map[string]string {
	return map[string]string{
		"Content-Type":                  "text/event-stream",
		"X-Vercel-AI-UI-Message-Stream": "v1",
		"Cache-Control":                 "no-cache, no-transform",
		"X-Accel-Buffering":             "no",
	}
}
