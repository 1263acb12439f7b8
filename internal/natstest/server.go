package natstest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience bounds every wait for a server. It is long because test machines
// are slow and shared; nothing waits that long unless something is broken.
const patience = 60 * time.Second

// Server is a NATS server in the process of the test. Its methods may be called
// from the goroutine of the test while clients use it.
type Server struct {
	// URL is where it listens, "" unless started with Listen. It stays the
	// same over restarts.
	URL string

	cfg config
	log *logTail

	mu  sync.Mutex     // guards srv
	srv *server.Server // nil while it is down
}

// Start starts a server in process: JetStream, files in a directory of the
// test, no port unless Listen is given. It ends with the test.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	cfg := newConfig(tb, opts)
	if cfg.Listen {
		cfg.Port = ReservePort(tb) // ours also while the server is down
	}
	s := &Server{cfg: cfg, log: &logTail{}}
	tb.Cleanup(func() {
		s.Shutdown()
		s.log.show(tb, s.cfg.Name)
	})
	s.start(tb)
	return s
}

// Shutdown stops the server and waits until all of it has ended. Connections
// stay and try again. A second call does nothing.
func (s *Server) Shutdown() {
	s.mu.Lock()
	srv := s.srv
	s.srv = nil
	s.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// Restart stops the server, if it runs, and starts it on the same files (and
// the same port). Connections come back by themselves.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Shutdown()
	s.start(tb)
}

// Conn is a new connection, which does without a port. It closes with the test.
func (s *Server) Conn(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, nats.DefaultURL, append([]nats.Option{nats.InProcessServer(s)}, opts...)...)
}

// JetStream is JetStream on a new connection.
func (s *Server) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, s.Conn(tb, opts...))
}

// InProcessConn makes Server fit nats.InProcessServer. A connection that comes
// back after a Restart finds the new server here.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	srv := s.srv
	s.mu.Unlock()
	if srv == nil {
		return nil, errors.New("the test server is down")
	}
	return srv.InProcessConn()
}

// NATS is the server itself, nil while it is down, for what only it can tell:
// its connections, its health.
func (s *Server) NATS() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.srv
}

func (s *Server) start(tb testing.TB) {
	tb.Helper()
	srv, err := startServer(s.cfg, s.log)
	if err != nil {
		tb.Fatalf("start the test server: %v", err)
	}
	if s.cfg.Listen {
		s.URL = srv.ClientURL()
	}
	s.mu.Lock()
	s.srv = srv
	s.mu.Unlock()
}

// serverLog is a logger that remembers why a server gave up.
type serverLog interface {
	server.Logger
	takeFatal() string
}

// startServer returns when the server takes connections, or why it does not.
func startServer(cfg config, log serverLog) (*server.Server, error) {
	opts, err := cfg.serverOptions()
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	if reason := log.takeFatal(); reason != "" {
		err = errors.New(reason)
	} else if !srv.ReadyForConnections(patience) {
		err = fmt.Errorf("not ready for connections after %s", patience)
	} else if !cfg.NoJetStream && !srv.JetStreamEnabled() {
		err = errors.New("JetStream did not start")
	}
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, err
	}
	return srv, nil
}
