package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Connect connects to url, one or several separated by commas, and closes the
// connection at the end of the test. It reconnects without a limit and with a
// short delay, so that a test of a restart waits for the server and not for the
// reconnect delay of the client. opts override these options.
func Connect(tb testing.TB, url string, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	all := append([]nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
		nats.Timeout(5 * time.Second),
		nats.IgnoreDiscoveredServers(),
	}, opts...)
	nc, err := nats.Connect(url, all...)
	if err != nil {
		tb.Fatalf("connect to test server %q: %v", url, err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// JetStream is Connect with a JetStream context.
func JetStream(tb testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, Connect(tb, url, opts...))
}

func newJetStream(tb testing.TB, nc *nats.Conn) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatalf("create JetStream context of the test server: %v", err)
	}
	return js
}
