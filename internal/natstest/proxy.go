package natstest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between clients and a server and lets a test take bytes away.
// Its methods may be called from any goroutine.
//
// A fault holds for connections that exist and for new ones, until the next
// one or Heal. Bytes are lost or held, never reordered: this is TCP.
type Proxy struct {
	// URL is where clients connect.
	URL string

	listener net.Listener
	target   string
	replies  func(io.Reader) io.Reader // what clients get to read of what the server says
	work     sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	closed  bool
	fault   fault
	links   map[*link]struct{}
	changed chan struct{} // closed and replaced when fault changes
}

// fault is what happens to the bytes of all connections.
type fault int

const (
	healthy     fault = iota
	stalled           // no byte moves, none is lost: a frozen host, a cable pulled for a moment
	dropReplies       // what clients send arrives, what the server answers is lost: a lost ack
	blackhole         // everything is lost in both directions
	refusing          // new connections are closed at once
)

// loses says whether bytes of a direction are thrown away.
func (f fault) loses(reply bool) bool { return f == blackhole || f == dropReplies && reply }

// StartProxy starts a proxy before the server at serverURL. It ends with the
// test, after the connections through it.
func StartProxy(tb testing.TB, serverURL string) *Proxy {
	tb.Helper()
	return startProxy(tb, serverURL, func(r io.Reader) io.Reader { return r })
}

func startProxy(tb testing.TB, serverURL string, replies func(io.Reader) io.Reader) *Proxy {
	tb.Helper()
	u, err := url.Parse(serverURL)
	if err != nil || u.Host == "" {
		tb.Fatalf("proxy to %q: want the URL of a server that listens", serverURL)
	}
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		tb.Fatalf("proxy to %q: %v", serverURL, err)
	}
	p := &Proxy{
		URL:      "nats://" + listener.Addr().String(),
		listener: listener,
		target:   u.Host,
		replies:  replies,
		links:    make(map[*link]struct{}),
		changed:  make(chan struct{}),
	}
	p.work.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Cut closes all connections. New ones are as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Stall holds all bytes of both directions. After Heal they arrive, late.
func (p *Proxy) Stall() { p.set(stalled) }

// DropReplies loses what the server sends: messages arrive and their
// acknowledgements do not. New connections get no greeting either.
func (p *Proxy) DropReplies() { p.set(dropReplies) }

// Blackhole loses all bytes of both directions; connections stay open.
func (p *Proxy) Blackhole() { p.set(blackhole) }

// Refuse closes all connections and each new one.
func (p *Proxy) Refuse() {
	p.set(refusing)
	p.Cut()
}

// Heal ends the fault. A connection that lost bytes is closed, because what
// came after the hole would make no sense to its reader.
func (p *Proxy) Heal() { p.set(healthy) }

// Connections is how many are open.
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
			l.close() // before a byte from behind the hole goes through
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// close ends the proxy and waits for its goroutines.
func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // accept sees it
	p.mu.Unlock()
	p.set(healthy) // wakes those that wait for the end of a stall
	p.Cut()
	p.work.Wait()
}

// accept takes connections until the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client) })
	}
}

// serve carries one connection until either side ends.
func (p *Proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil { // the server is down: so are we, as the client sees it
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
	both.Go(func() { p.carry(l, server, client, false) })
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

// carry moves bytes in one direction until that ends, then ends both.
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

// pass says whether bytes that were just read go on. It waits while the proxy
// is stalled.
func (p *Proxy) pass(l *link, reply bool) bool {
	for {
		p.mu.Lock()
		fault, changed := p.fault, p.changed
		hole := &l.lostSent
		if reply {
			hole = &l.lostReply
		}
		*hole = *hole || fault.loses(reply)
		lost := *hole // also when the fault is over: the link is being closed
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

// close ends both halves; the second time it does nothing that matters.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
