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

// Server is a NATS server in this process. Its methods may be called from any
// goroutine.
type Server struct {
	srv  *server.Server
	lock *storeLock

	stopping sync.Once
	stopped  chan struct{} // closed when the server has ended and the lock is given back
	unlock   error         // readable once stopped is closed
}

// Start starts a server on the files in cfg.StoreDir and returns when it takes
// connections and its streams are recovered, which takes about a second for a
// million messages. When ctx ends first, it stops again. Errors say in one
// sentence what is in the way: a directory that cannot be written or is in use
// by another process, a port that is taken.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start the NATS server: %w", context.Cause(ctx))
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
		return nil, fmt.Errorf("configure the NATS server: %w", err)
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

// checkPort listens on the port for a moment, because what the server says
// when it cannot is a line in its log and not an error.
func checkPort(ctx context.Context, cfg Config) error {
	if cfg.Port == 0 {
		return nil
	}
	port := max(cfg.Port, 0) // RandomPort is 0 to the operating system
	address := net.JoinHostPort(cfg.Host, strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is already in use: stop what listens there, or choose another port: %w", address, err)
	case err != nil:
		return fmt.Errorf("cannot listen on %s: choose another address: %w", address, err)
	}
	return listener.Close()
}

func awaitReady(ctx context.Context, srv *server.Server, log *logger) error {
	for !srv.ReadyForConnections(50 * time.Millisecond) {
		if err := log.fatal(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("start the NATS server: %w", context.Cause(ctx))
		}
	}
	if err := log.fatal(); err != nil {
		return err
	}
	if !srv.JetStreamEnabled() {
		return errors.New("JetStream of the NATS server did not start: its log says why")
	}
	return nil
}

// ClientURL is where other processes connect, "" when Port was 0.
func (s *Server) ClientURL() string {
	if s.srv.Addr() == nil {
		return ""
	}
	return s.srv.ClientURL()
}

// InProcess makes nats.Connect speak to this server without the network. Such
// a connection ignores the URL it is given.
func (s *Server) InProcess() nats.Option { return nats.InProcessServer(s.srv) }

// Shutdown stops the server, waits until it has written and closed its files,
// and gives the directory back. When ctx ends first it returns its error and
// the server goes on stopping; a later call waits again.
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
		return fmt.Errorf("the NATS server is still stopping: %w", context.Cause(ctx))
	}
}
