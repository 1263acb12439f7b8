package pgtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Proxy relays connections to a server, and shows each message of a client before it is relayed.
type Proxy struct {
	server   *Server
	listener net.Listener
	working  sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	watch func(Message) Action
	conns map[net.Conn]struct{} // of clients and of the server
}

// Message is a message of a client.
type Message struct {
	Type byte   // as the protocol has it: 'Q' and 'P' are statements, 'd' and 'c' are of COPY
	Text string // what follows the length
}

// Action is what a Proxy does with a message.
type Action int

// The actions of a Proxy.
const (
	Relay      Action = iota
	Drop              // close the connection without relaying the message
	LoseAnswer        // relay the message, and close the connection instead of relaying the next answer
)

// NewProxy returns a proxy to the server of the package, which is closed at the end of the test.
func NewProxy(tb testing.TB) *Proxy {
	tb.Helper()
	return shared.Proxy(tb)
}

// Proxy returns a proxy, which is closed at the end of the test.
func (s *Server) Proxy(tb testing.TB) *Proxy {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{server: s, listener: listener, conns: map[net.Conn]struct{}{}}
	p.working.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Through returns a URL of a database with the address of the proxy.
func (p *Proxy) Through(database string) string {
	u, err := url.Parse(database)
	if err != nil {
		panic(err)
	}
	u.Host, u.RawQuery = p.listener.Addr().String(), "sslmode=disable"
	return u.String()
}

// Watch calls watch for each message of a client from now on. It is called for one message at a time of each connection, and may block.
func (p *Proxy) Watch(watch func(Message) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

func (p *Proxy) actionOf(m Message) Action {
	p.mu.Lock()
	watch := p.watch
	p.mu.Unlock()
	if watch == nil {
		return Relay
	}
	return watch(m)
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.working.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "unix", p.server.Socket())
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		link := &link{proxy: p, client: client, server: server}
		p.working.Go(link.relayAnswers)
		p.working.Go(link.relayMessages)
	}
}

// link is a connection of a client and its connection to the server.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu   sync.Mutex // guards lost
	lost bool       // the next answer is not relayed
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.server)
}

func (l *link) relayAnswers() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		lost := l.lost
		l.mu.Unlock()
		if lost {
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) relayMessages() {
	defer l.close()
	startup, err := readMessage(l.client, 4)
	if err != nil {
		return
	}
	if _, err := l.server.Write(startup); err != nil {
		return
	}
	for {
		message, err := readMessage(l.client, 5)
		if err != nil {
			return
		}
		action := l.proxy.actionOf(Message{Type: message[0], Text: string(message[5:])})
		if action == Drop {
			return
		}
		if action == LoseAnswer {
			l.mu.Lock()
			l.lost = true
			l.mu.Unlock()
		}
		if _, err := l.server.Write(message); err != nil {
			return
		}
	}
}

// readMessage reads a message with a header, whose last four bytes are the length without the type. The first message of a connection has no type.
func readMessage(from io.Reader, header int) ([]byte, error) {
	message := make([]byte, header)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(message[header-4:])) + header - 4
	if size < header || size > 1<<26 {
		return nil, fmt.Errorf("message of %d bytes", size)
	}
	message = slices.Grow(message, size-header)[:size]
	_, err := io.ReadFull(from, message[header:])
	return message, err
}
