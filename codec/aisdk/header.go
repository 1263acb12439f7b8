package aisdk

// Header is the header that a response of this dialect has, beside those that
// the server sets for itself.
func Header() [][2]string {
	return [][2]string{
		{"Content-Type", "text/event-stream"},
		{"X-Vercel-AI-UI-Message-Stream", "v1"},
		{"Cache-Control", "no-cache, no-transform"},
		{"X-Accel-Buffering", "no"},
	}
}
