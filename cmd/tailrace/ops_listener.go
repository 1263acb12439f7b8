package main

import (
	"net"
	"slices"
	"sync"
)

// opsListener closes its oldest connection when there are more than limit. A listener
// that stops accepting at its limit would let idle connections block the probes: until
// their timeout a live process would be restarted for not answering /livez.
type opsListener struct {
	net.Listener

	limit int

	mu   sync.Mutex // guards open
	open []*opsConn // oldest first
}

type opsConn struct {
	net.Conn

	listener *opsListener
}

func (l *opsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &opsConn{Conn: conn, listener: l}
	l.mu.Lock()
	l.open = append(l.open, c)
	oldest := l.open[0]
	full := len(l.open) > l.limit
	l.mu.Unlock()
	if full {
		_ = oldest.Close() // the server reports the end of its request, if it has one
	}
	return c, nil
}

func (c *opsConn) Close() error {
	l := c.listener
	l.mu.Lock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
	l.mu.Unlock()
	return c.Conn.Close()
}
