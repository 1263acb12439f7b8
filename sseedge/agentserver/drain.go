package agentserver

import "context"

// Drain rejects all present and later requests to /sse that wait for a run to begin: another edge accepts them. Streams with events are drained by the handler
// that serves them. All other requests are short and are still served.
func (s *Server) Drain(ctx context.Context) error { return s.waiting.Begin(ctx, 0) }
