package stack

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/natsauth"
)

// Process is a component with a connection of its own, like a process of its own.
type Process struct {
	JS jetstream.JetStream

	t      testing.TB
	cancel context.CancelFunc
	done   chan struct{} // closed when the component has returned
}

// NewProcess opens the connection of a process of a role.
func (s *Stack) NewProcess(role natsauth.Role) *Process {
	s.t.Helper()
	return &Process{JS: s.connect(role), t: s.t}
}

// connect returns JetStream on a connection of a role.
func (s *Stack) connect(role natsauth.Role) jetstream.JetStream {
	s.t.Helper()
	if s.Users == nil {
		return s.on.JetStream(s.t)
	}
	return s.on.JetStream(s.t, s.Users.Options(s.t, role)...)
}

// Go runs a component until it is stopped or the test ends. An error fails the test, unless the process was killed. It is called once.
func (p *Process) Go(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	p.cancel, p.done = cancel, make(chan struct{})
	go func() {
		defer close(p.done)
		if err := run(ctx); err != nil && !p.JS.Conn().IsClosed() {
			p.t.Error(err)
		}
	}()
	p.t.Cleanup(p.Stop)
}

// Cancel ends the context of the component.
func (p *Process) Cancel() { p.cancel() }

// Stop ends the context of the component and waits for its return.
func (p *Process) Stop() {
	p.cancel()
	<-p.done
}

// Kill closes the connection without a drain, as a crash does.
func (p *Process) Kill() { p.JS.Conn().Close() }
