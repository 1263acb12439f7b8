package embed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a NATS server in this process. Its methods are safe for concurrent
// use.
type Server struct {
	srv  *server.Server
	lock *storeLock

	stopping sync.Once
	stopped  chan struct{} // closed when the server has ended and the lock is released
	unlock   error         // readable once stopped is closed
}

// Start starts a server on the files in cfg.StoreDir. It returns when the
// server accepts connections and its streams are recovered, which takes about a
// second per million messages. If ctx ends first, the server is stopped. Errors
// name the cause in one sentence: a directory that is not writable or is in use
// by another process, a port that is taken.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start NATS server: %w", context.Cause(ctx))
	}
	lock, err := lockStore(cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	srv, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return &Server{srv: srv, lock: lock, stopped: make(chan struct{})}, nil
}

func start(ctx context.Context, cfg Config) (*server.Server, error) {
	if err := checkPort(ctx, cfg); err != nil {
		return nil, err
	}
	srv, err := server.NewServer(cfg.options())
	if err != nil {
		return nil, fmt.Errorf("configure NATS server: %w", err)
	}
	log := &logger{log: cfg.Log}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	if err := awaitReady(ctx, srv, log); err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, err
	}
	return srv, nil
}

// checkPort briefly listens on the port, because nats-server reports a failure
// to listen in its log and not as an error.
func checkPort(ctx context.Context, cfg Config) error {
	if cfg.Port == 0 {
		return nil
	}
	port := max(cfg.Port, 0) // RandomPort is 0 to the operating system
	address := net.JoinHostPort(host, strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: address already in use: stop the other process or choose another port: %w", address, err)
	case err != nil:
		return fmt.Errorf("listen on %s: choose another address: %w", address, err)
	}
	return listener.Close()
}

func awaitReady(ctx context.Context, srv *server.Server, log *logger) error {
	for !srv.ReadyForConnections(50 * time.Millisecond) {
		if err := log.fatal(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("start NATS server: %w", context.Cause(ctx))
		}
	}
	if err := log.fatal(); err != nil {
		return err
	}
	if !srv.JetStreamEnabled() {
		return errors.New("JetStream of the NATS server not started: see its log")
	}
	return nil
}

// ClientURL returns the URL for other processes, "" if Port was 0.
func (s *Server) ClientURL() string {
	if s.srv.Addr() == nil {
		return ""
	}
	return s.srv.ClientURL()
}

// InProcess returns an option that connects to this server without the network.
// The URL of such a connection is ignored.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.srv) }

// Shutdown stops the server, waits until it has written and closed its files,
// and releases the directory. If ctx ends first, it returns its error and the
// server continues to stop; a later call waits for it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Do(func() {
		go func() { // ends when the server has ended
			defer close(s.stopped)
			s.srv.Shutdown()
			s.srv.WaitForShutdown()
			s.unlock = s.lock.release()
		}()
	})
	select {
	case <-s.stopped:
		return s.unlock
	case <-ctx.Done():
		return fmt.Errorf("stop NATS server: still stopping: %w", context.Cause(ctx))
	}
}
