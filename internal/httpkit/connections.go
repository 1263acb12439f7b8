package httpkit

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/tailrace/tailrace/internal/wait"
)

// LimitConnections returns a listener with at most limit open connections. When there are as many, the one that has been without a request for the longest time is closed
// for the next one; if all have requests, the next one waits. One public address has at most half of them, unless it is that of a proxy; further ones of it are closed at once.
//
// server tells which connections have requests. Without it, which is nil, the oldest one is closed, and addresses have no share: a listener that lets clients wait would be
// no use for probes, since a live process that does not answer is restarted.
func LimitConnections(listener net.Listener, limit int, server *http.Server, proxies []netip.Prefix) net.Listener {
	l := &limitedListener{
		Listener: listener, shared: server != nil, proxies: proxies, budget: NewBudget(int64(limit)), freed: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if server != nil {
		server.ConnState = l.changed
	}
	return l
}

type limitedListener struct {
	net.Listener

	shared  bool // addresses have a share
	proxies []netip.Prefix
	budget  *Budget
	freed   chan struct{} // has an element when a connection was closed or has no request any more
	closed  chan struct{}
	once    sync.Once

	mu   sync.Mutex // guards idle
	idle list.List  // of *limitedConn without a request, oldest first
}

type limitedConn struct {
	net.Conn

	listener *limitedListener
	client   Client

	// Guarded by the mu of the listener.
	closed  bool
	waiting *list.Element // in idle, nil for one with a request
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &limitedConn{Conn: conn, listener: l}
		if a, ok := parseAddress(conn.RemoteAddr().String()); ok && l.shared && !exempt(a) && !isTrusted(a, l.proxies) {
			c.client.address = network(a)
		}
		if l.admit(c) {
			return c, nil
		}
		_ = conn.Close() // no response is in it
	}
}

// admit waits until a connection is free. It reports false if its address has too many, or if the listener is closed.
func (l *limitedListener) admit(c *limitedConn) bool {
	for {
		full := l.budget.Full() // at most until others are closed: connections come one after the other
		switch {
		case l.budget.TryTake(c.client, 1):
			l.changed(c, http.StateIdle)
			return true
		case !full:
			return false
		case l.closeOldest():
		default:
			select {
			case <-l.freed:
			case <-l.closed:
				return false
			}
		}
	}
}

// closeOldest closes the connection that has been without a request for the longest time. One that gets a request at this moment is closed too: its client has to repeat
// it, as after the end of its idle time.
func (l *limitedListener) closeOldest() bool {
	l.mu.Lock()
	front := l.idle.Front()
	l.mu.Unlock()
	if front == nil {
		return false
	}
	if c, ok := front.Value.(*limitedConn); ok { // always
		_ = c.Close() // the server reports the end of a request
	}
	return true
}

// changed implements http.Server.ConnState.
func (l *limitedListener) changed(conn net.Conn, state http.ConnState) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, ok := conn.(*limitedConn)
	if !ok || state != http.StateActive && state != http.StateIdle {
		return
	}
	l.mu.Lock()
	l.remove(c)
	if state == http.StateIdle && !c.closed {
		c.waiting = l.idle.PushBack(c)
	}
	l.mu.Unlock()
	if state == http.StateIdle {
		l.signal()
	}
}

func (l *limitedListener) remove(c *limitedConn) {
	if c.waiting != nil {
		l.idle.Remove(c.waiting)
		c.waiting = nil
	}
}

func (l *limitedListener) signal() {
	wait.Signal(l.freed)
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	first := !c.closed
	c.closed = true
	l.remove(c)
	l.mu.Unlock()
	if first {
		l.budget.Return(c.client, 1)
		l.signal()
	}
	return c.Conn.Close()
}
