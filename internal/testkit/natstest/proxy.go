package natstest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy forwards connections of clients to a server and can drop or delay
// bytes. Its methods may be called from any goroutine.
//
// A fault applies to existing and new connections until the next fault or
// Restore. Bytes are dropped or delayed, never reordered, as with TCP.
type Proxy struct {
	// URL is the address for clients.
	URL string

	listener net.Listener
	target   string
	replies  func(io.Reader) io.Reader // wraps the server's side of a connection
	requests func(io.Reader) io.Reader // wraps the client's side
	work     sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	closed  bool
	fault   fault
	links   map[*link]struct{}
	changed chan struct{} // closed and replaced at each change of fault
}

// fault is the state of all connections.
type fault int

const (
	healthy     fault = iota
	stalled           // bytes are delayed, none is lost: a frozen host, a brief network interruption
	dropReplies       // requests arrive, responses are lost: a lost ack
	blackhole         // all bytes are lost in both directions
	refusing          // new connections are closed immediately
)

// loses reports whether bytes of a direction are dropped.
func (f fault) loses(reply bool) bool { return f == blackhole || f == dropReplies && reply }

// StartProxy starts a proxy in front of the server at serverURL. It ends with
// the test, after the connections through it.
func StartProxy(tb testing.TB, serverURL string) *Proxy {
	tb.Helper()
	unchanged := func(r io.Reader) io.Reader { return r }
	return startProxy(tb, serverURL, unchanged, unchanged)
}

func startProxy(tb testing.TB, serverURL string, replies, requests func(io.Reader) io.Reader) *Proxy {
	tb.Helper()
	u, err := url.Parse(serverURL)
	if err != nil || u.Host == "" {
		tb.Fatalf("proxy to %q: want the URL of a server that listens", serverURL)
	}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", net.JoinHostPort(Loopback, "0"))
	if err != nil {
		tb.Fatalf("proxy to %q: %v", serverURL, err)
	}
	p := &Proxy{
		URL:      "nats://" + listener.Addr().String(),
		listener: listener,
		target:   u.Host,
		replies:  replies,
		requests: requests,
		links:    make(map[*link]struct{}),
		changed:  make(chan struct{}),
	}
	p.work.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// CloseConnections closes all connections. New connections are not affected.
func (p *Proxy) CloseConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Stall delays all bytes of both directions. After Restore they arrive.
func (p *Proxy) Stall() { p.set(stalled) }

// DropReplies drops all bytes that the server sends: messages arrive and their
// acknowledgements do not. New connections do not get the INFO message either.
func (p *Proxy) DropReplies() { p.set(dropReplies) }

// Blackhole drops all bytes of both directions; connections stay open.
func (p *Proxy) Blackhole() { p.set(blackhole) }

// Refuse closes all connections and each new one.
func (p *Proxy) Refuse() {
	p.set(refusing)
	p.CloseConnections()
}

// Restore ends the fault. A connection that lost bytes is closed, because the
// bytes after the gap are not a valid protocol stream.
func (p *Proxy) Restore() { p.set(healthy) }

// Connections returns the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for l := range p.links {
		if l.lostReply && !f.loses(true) || l.lostSent && !f.loses(false) {
			l.close() // before a byte from after the gap is forwarded
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// close ends the proxy and waits for its goroutines.
func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // ends accept
	p.mu.Unlock()
	p.set(healthy) // wakes the connections that wait for the end of a stall
	p.CloseConnections()
	p.work.Wait()
}

// accept accepts connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// serve forwards one connection until either side ends.
func (p *Proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil { // the server is down: reject the client as well
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	if !p.add(l) {
		l.close()
		return
	}
	defer p.remove(l)
	var both sync.WaitGroup
	both.Go(func() { p.carry(l, server, p.requests(client), false) })
	both.Go(func() { p.carry(l, client, p.replies(server), true) })
	both.Wait()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.fault == refusing {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// carry copies bytes in one direction until it ends, and then closes both.
func (p *Proxy) carry(l *link, to io.Writer, from io.Reader, reply bool) {
	defer l.close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(l, reply) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass reports whether the bytes just read are forwarded. It blocks while the
// proxy is stalled.
func (p *Proxy) pass(l *link, reply bool) bool {
	for {
		p.mu.Lock()
		fault, changed := p.fault, p.changed
		lostBytes := &l.lostSent
		if reply {
			lostBytes = &l.lostReply
		}
		*lostBytes = *lostBytes || fault.loses(reply)
		lost := *lostBytes // also after the fault: the link is being closed
		p.mu.Unlock()
		if fault != stalled || lost {
			return !lost
		}
		<-changed
	}
}

// link is one connection through a Proxy.
type link struct {
	client, server net.Conn

	lostSent, lostReply bool // bytes of that direction were lost; guarded by Proxy.mu
}

// close closes both halves. A second call has no effect.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
