package natstest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"testing"
)

// The JetStream domains of StartLeaf.
const (
	HomeDomain = "home"
	LeafDomain = "leaf"
)

// Leaf is a leaf node with a JetStream domain of its own, the server that it is connected to, and their connection.
type Leaf struct {
	Home, Leaf *Server
	Link       *Proxy
}

// LeafConfig has fragments of the configuration files of both servers, such as users, and the user at home of the leaf node.
type LeafConfig struct {
	Home, Leaf string
	User       *url.Userinfo // nil for none
}

// StartLeaf starts both servers, with options of both, and waits until they are connected.
func StartLeaf(tb testing.TB, cfg LeafConfig, opts ...Option) *Leaf {
	tb.Helper()
	port := ReservePort(tb)
	// Without no_advertise the leaf node would also know the address behind the proxy.
	cfg.Home += fmt.Sprintf("\njetstream: {domain: %s}\nleafnodes: {host: %q, port: %d, no_advertise: true}\n", HomeDomain, loopback, port)
	l := &Leaf{Home: Start(tb, append(slices.Clone(opts), ServerConfig(cfg.Home))...)}
	l.Link = StartProxy(tb, "nats://"+net.JoinHostPort(loopback, strconv.Itoa(port)))
	remote, err := url.Parse(l.Link.URL)
	if err != nil {
		tb.Fatal(err)
	}
	remote.User = cfg.User
	cfg.Leaf += fmt.Sprintf("\njetstream: {domain: %s}\nleafnodes: {remotes: [{url: %q}]}\n", LeafDomain, remote)
	l.Leaf = Start(tb, append(slices.Clone(opts), ServerConfig(cfg.Leaf))...)
	l.AwaitLink(tb)
	return l
}

// AwaitLink waits until the servers are connected.
func (l *Leaf) AwaitLink(tb testing.TB) {
	tb.Helper()
	Eventually(tb, "the leaf node", func(context.Context) error {
		if n := l.Home.NATS().NumLeafNodes(); n != 1 {
			return fmt.Errorf("%d leaf nodes", n)
		}
		return nil
	})
}

// Cut closes the connection, refuses new ones, and waits until home knows.
func (l *Leaf) Cut(tb testing.TB) {
	tb.Helper()
	l.Link.Refuse()
	Eventually(tb, "the lost leaf node", func(context.Context) error {
		if n := l.Home.NATS().NumLeafNodes() + l.Leaf.NATS().NumLeafNodes(); n > 0 {
			return fmt.Errorf("%d leaf nodes", n)
		}
		return nil
	})
}
