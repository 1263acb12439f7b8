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

// waitTimeout bounds every wait for a server. It is long because test machines
// are slow and shared; only a defect makes a test wait that long.
const waitTimeout = 60 * time.Second

// Server is an in-process NATS server. Its methods may be called from the
// goroutine of the test while clients use it.
type Server struct {
	// URL is the address of the server, "" without Listen. Restart keeps it.
	URL string

	cfg config
	log *logTail

	mu  sync.Mutex     // guards srv
	srv *server.Server // nil while the server is down
}

// Start starts an in-process server with JetStream, files in a temporary
// directory of the test, and no port unless Listen is given. It ends with the
// test.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	cfg := newConfig(tb, opts)
	if cfg.Listen {
		cfg.Port = ReservePort(tb) // reserved also while the server is down
	}
	s := &Server{cfg: cfg, log: &logTail{}}
	tb.Cleanup(func() {
		s.Shutdown()
		s.cfg.checkViolations(tb, s.log)
		s.log.show(tb, s.cfg.Name)
	})
	s.start(tb)
	return s
}

// Shutdown stops the server and waits until it has ended. Connections stay and
// reconnect. A second call has no effect.
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

// Restart stops the server if it runs and starts it on the same files and the
// same port. Connections reconnect automatically.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.Shutdown()
	s.start(tb)
}

// Reload replaces the configuration that ServerConfig has given, while the server
// runs: it closes the connections of users that are no longer allowed.
func (s *Server) Reload(tb testing.TB, text string) {
	tb.Helper()
	s.cfg.Text = text
	if err := reload(s.NATS(), s.cfg); err != nil {
		tb.Fatalf("reload test server: %v", err)
	}
}

func reload(srv *server.Server, cfg config) error {
	opts, err := cfg.serverOptions()
	if err != nil {
		return err
	}
	return srv.ReloadOptions(opts)
}

// Conn returns a new in-process connection, which needs no port. It closes with
// the test.
func (s *Server) Conn(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, nats.DefaultURL, append([]nats.Option{nats.InProcessServer(s)}, opts...)...)
}

// JetStream returns a JetStream context on a new connection.
func (s *Server) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, s.Conn(tb, opts...))
}

// InProcessConn implements nats.InProcessConnProvider. A connection that
// reconnects after a Restart gets the new server.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	srv := s.srv
	s.mu.Unlock()
	if srv == nil {
		return nil, errors.New("test server is down")
	}
	return srv.InProcessConn()
}

// NATS returns the underlying server, nil while it is down. Tests use it to
// inspect connections and health.
func (s *Server) NATS() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.srv
}

func (s *Server) start(tb testing.TB) {
	tb.Helper()
	srv, err := startServer(s.cfg, s.log)
	if err != nil {
		tb.Fatalf("start test server: %v", err)
	}
	if s.cfg.Listen {
		s.URL = srv.ClientURL()
	}
	s.mu.Lock()
	s.srv = srv
	s.mu.Unlock()
}

// serverLog is a logger that records the fatal line of a server.
type serverLog interface {
	server.Logger
	takeFatal() string
}

// startServer returns when the server accepts connections, or the reason why it
// does not.
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
	} else if !srv.ReadyForConnections(waitTimeout) {
		err = fmt.Errorf("not ready for connections after %s", waitTimeout)
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
