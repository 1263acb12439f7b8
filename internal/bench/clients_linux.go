package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"time"
)

// readAll connects the clients and reads until each is done, on one goroutine
// with epoll: the overhead of package net for each connection would be half the
// work of this process.
func readAll(ctx context.Context, clients []*client) error {
	p, err := newPoll(len(clients))
	if err != nil {
		return err
	}
	defer p.close()
	for _, c := range clients {
		if err := p.connect(c); err != nil {
			return c.failed(err)
		}
		// While the server accepts connections, the open ones are read.
		if err := p.wait(0); err != nil {
			return err
		}
	}
	for len(p.open) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.wait(100); err != nil {
			return err
		}
	}
	return nil
}

type poll struct {
	fd     int
	open   map[int32]*client
	events []syscall.EpollEvent
	buffer []byte
}

func newPoll(clients int) (*poll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return &poll{fd: fd, open: make(map[int32]*client, clients), events: make([]syscall.EpollEvent, 256), buffer: make([]byte, 256<<10)}, err
}

func (p *poll) close() {
	for fd := range p.open {
		_ = syscall.Close(int(fd))
	}
	_ = syscall.Close(p.fd)
}

// connect opens the connection and sends the request. A connection to loopback
// is established immediately.
func (p *poll) connect(c *client) error {
	to, err := netip.ParseAddrPort(c.addr)
	if err != nil {
		return err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	p.open[int32(fd)] = c
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return err
	}
	request := c.request()
	if n, err := syscall.Write(fd, request); err != nil || n < len(request) {
		return fmt.Errorf("send request: %d of %d bytes written: %w", n, len(request), err)
	}
	return syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
}

// wait reads once from each client with data.
func (p *poll) wait(milliseconds int) error {
	n, err := syscall.EpollWait(p.fd, p.events, milliseconds)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return err
	}
	for _, event := range p.events[:max(0, n)] {
		c := p.open[event.Fd]
		n, err := syscall.Read(int(event.Fd), p.buffer)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil && n == 0:
			err = io.EOF
		case err == nil:
			err = c.feed(p.buffer[:n], time.Now())
		}
		if err != nil {
			return c.failed(err)
		}
		if c.done() {
			delete(p.open, event.Fd)
			if err := syscall.Close(int(event.Fd)); err != nil {
				return err
			}
		}
	}
	return nil
}
