package natstest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A message is stored and the writer never gets the acknowledgement.
func TestProxyLosesTheAck(t *testing.T) {
	srv := natstest.Start(t)
	direct := srv.JetStream(t)
	stream, err := direct.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	if err != nil {
		t.Fatal(err)
	}
	proxy := natstest.StartProxy(t, srv.URL)
	reconnected := make(chan struct{}, 1)
	nc := natstest.Connect(t, proxy.URL, nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("one")); err != nil {
		t.Fatalf("through a healthy proxy: %v", err)
	}

	proxy.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := js.Publish(ctx, "s.2", []byte("two")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("publish without replies: %v, want a deadline", err)
	}
	if msg, err := stream.GetLastMsgForSubject(t.Context(), "s.2"); err != nil || string(msg.Data) != "two" {
		t.Errorf("s.2 = %v, %v; want it stored", msg, err)
	}
	if err := nc.Publish("s.2", []byte("two again")); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the message sent without replies to arrive", func(ctx context.Context) error {
		msg, err := stream.GetLastMsgForSubject(ctx, "s.2")
		if err == nil && string(msg.Data) != "two again" {
			err = errors.New("not yet")
		}
		return err
	})
	proxy.Restore()
	<-reconnected // the connection that lost bytes was closed
	if _, err := js.Publish(t.Context(), "s.3", []byte("three")); err != nil {
		t.Errorf("after Restore: %v", err)
	}

	proxy.Refuse()
	natstest.Eventually(t, "the refused connection to end", func(context.Context) error {
		if n := proxy.Connections(); n != 0 || nc.IsConnected() {
			return errors.New("still connected")
		}
		return nil
	})
	proxy.Restore()
	<-reconnected
	proxy.CloseConnections()
	<-reconnected
}

// A stall loses no bytes: they arrive after it.
func TestProxyStalls(t *testing.T) {
	srv := natstest.Start(t)
	proxy := natstest.StartProxy(t, srv.URL)
	nc := natstest.Connect(t, proxy.URL)
	proxy.Stall()
	if err := nc.FlushTimeout(100 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("flush through a stalled proxy: %v, want a timeout", err)
	}
	proxy.Restore()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Errorf("flush after the stall: %v", err)
	}
	if got := nc.Stats().Reconnects; got != 0 {
		t.Errorf("%d reconnects, want 0 after a stall", got)
	}
	proxy.Blackhole()
	if err := nc.FlushTimeout(100 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("flush through a blackhole: %v, want a timeout", err)
	}
}

// A message is held, and arrives although its client has closed the connection meanwhile.
func TestHoldProxy(t *testing.T) {
	srv := natstest.Start(t)
	subscriber := srv.Conn(t)
	received, err := subscriber.SubscribeSync("s.>")
	if err := errors.Join(err, subscriber.Flush()); err != nil {
		t.Fatal(err)
	}
	proxy := natstest.StartHoldProxy(t, srv.URL)
	reconnected := make(chan struct{}, 1)
	nc := natstest.Connect(t, proxy.URL, nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }))
	hold := proxy.Hold(func(m string) bool { return strings.Contains(m, "N: 2\r\n") })
	publish := func(n string) {
		t.Helper()
		if err := errors.Join(nc.PublishMsg(&nats.Msg{Subject: "s." + n, Header: nats.Header{"N": {n}}}), nc.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	publish("1")
	if err := nc.PublishMsg(&nats.Msg{Subject: "s.2", Header: nats.Header{"N": {"2"}}}); err != nil {
		t.Fatal(err)
	}
	<-hold.Held
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-reconnected
	publish("3")
	for _, want := range []string{"s.1", "s.3", "s.2"} {
		m, err := received.NextMsgWithContext(t.Context())
		if err != nil || m.Subject != want {
			t.Fatalf("%v, %v; want %s", m, err, want)
		}
		if want == "s.3" {
			hold.Release()
		}
	}
}
