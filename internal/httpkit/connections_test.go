package httpkit

import (
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// addressed is a listener whose connections come from addresses of choice.
type addressed struct {
	net.Listener

	next chan string
}

type addressedConn struct {
	net.Conn

	from net.Addr
}

func (a addressed) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return addressedConn{conn, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(<-a.next), 1))}, nil
}

func (c addressedConn) RemoteAddr() net.Addr { return c.from }

// One public address has at most half of the connections, also if it opens more; another one then gets some, and private addresses and those of proxies have no share.
func TestConnectionsOfAnAddress(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	from := make(chan string, 100)
	server := new(http.Server) // whose ConnState is not called: all connections count as idle
	listener := LimitConnections(addressed{inner, from}, 8, server, []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")})
	defer listener.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	dial := func(address string) (open bool) {
		from <- address
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = conn.Read(make([]byte, 1)) // ends when the connection is closed
		}()
		select {
		case c := <-accepted:
			t.Cleanup(func() { c.Close() })
			return true
		case <-ended:
			return false
		case <-time.After(10 * time.Second):
			t.Fatalf("a connection of %s is neither accepted nor closed", address)
			return false
		}
	}
	for n := range 10 {
		if open := dial("198.51.100.1"); open != (n < 4) {
			t.Errorf("connection %d of one address: open %t", n+1, open)
		}
	}
	for n := range 3 {
		if open := dial("198.51.100.2"); open != (n < 2) {
			t.Errorf("connection %d of another address: open %t, want half of what is left", n+1, open)
		}
	}
	for _, proxy := range []string{"10.0.0.1", "203.0.113.9"} {
		for range 20 { // each one takes the place of the oldest
			if !dial(proxy) {
				t.Errorf("a connection of %s was closed", proxy)
			}
		}
	}
}
