package natstest

import "testing"

// Server is a Process that a test shuts down and restarts without loss. Clients may use it meanwhile.
type Server struct {
	*Process

	tb testing.TB
}

// Start starts a server with JetStream and files in a temporary directory of the test, as a process. It ends with the test, or with the test binary, even if the
// binary is killed.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := &Server{StartProcess(tb, opts...), tb}
	tb.Cleanup(s.Shutdown) // in order, so that all violations are in the log
	return s
}

// Shutdown stops the server and waits until it has ended. Connections stay and reconnect. A second call has no effect.
func (s *Server) Shutdown() {
	s.tb.Helper()
	if s.run != nil {
		s.Process.Shutdown(s.tb)
	}
}

// Restart stops the server if it runs and starts it on the same files and the same port. Connections reconnect automatically.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Shutdown()
	s.Start(tb)
}
