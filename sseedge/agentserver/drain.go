package agentserver

import "context"

// Drain rejects each /sse that waits for a run to begin, now and from now on: another edge lets it wait. Streams that show events are drained by the handler
// that serves them. All other requests are short, and are still served.
func (s *Server) Drain(ctx context.Context) error { return s.waiting.Begin(ctx, 0) }
