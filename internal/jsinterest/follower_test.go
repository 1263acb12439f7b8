package jsinterest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsinterest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// TestLostMessages loses republished messages, as a server does when it stops to be the leader: at the end of a session, before further messages, and of one
// session of a tree before messages of another one.
func TestLostMessages(t *testing.T) {
	srv := natstest.Start(t)
	e := newEnv(t, srv.JetStream(t), 1)
	f := follower(t, srv.Conn(t))
	first := e.write(alice)
	r, other := follow(t, f, alice, 0), follow(t, f, bob, first)
	r.expect(first)

	var lost, later []uint64
	e.lose(func() { lost = append(lost, e.write(alice), e.write(alice)) })
	r.expect(e.stored(alice)...) // found although nothing follows
	e.lose(func() { lost = append(lost, e.write(alice)) })
	later = append(later, e.write(alice), e.write(bob), e.write(alice))
	r.expect(e.stored(alice)...)
	other.expect(later[1])
	if n := f.Repairs(); n < 2 || r.gapCount() != 0 {
		t.Errorf("%d repairs for %v, %d gaps; want 2, and the order restored", n, lost, r.gapCount())
	}

	// The message of the sub-agent is found after a later one of the root was delivered.
	e.write(kid)
	r.expect(e.stored(alice)...)
	e.lose(func() { e.write(kid) })
	e.write(alice)
	r.expect(e.stored(alice)...)
	e.write(kid)
	r.expect(e.stored(alice)...)
	if n := other.gapCount(); n != 0 {
		t.Errorf("%d gaps in a tree that lost nothing", n)
	}
}

// TestLostConnection stores messages of several sessions while the connection is lost. The feed compares before it delivers the first message that arrives
// afterwards, so the order is kept.
func TestLostConnection(t *testing.T) {
	srv := natstest.Start(t)
	e := newEnv(t, srv.JetStream(t), 1)
	proxy := natstest.StartProxy(t, srv.URL)
	f := follower(t, natstest.Connect(t, proxy.URL))
	r := follow(t, f, alice, 0)
	for range 5 {
		e.write(alice)
		e.write(kid)
		r.expect(e.stored(alice)...)
		proxy.Refuse()
		proxy.CloseConnections()
		for range 3 {
			e.write(kid)
			e.write(alice)
		}
		proxy.Restore()
		e.write(alice) // may arrive before or after the comparison
		r.expect(e.stored(alice)...)
	}
}

// TestLargeTree follows a tree with more sessions than the server compares in one request.
func TestLargeTree(t *testing.T) {
	srv := natstest.Start(t)
	e := newEnv(t, srv.JetStream(t), 1)
	e.write(alice)
	for n := range 1100 {
		e.write(alice.Child(fmt.Sprint("kid", n)))
	}
	f := follower(t, srv.Conn(t))
	r := follow(t, f, alice, 0)
	small := follow(t, f, bob, 0)
	r.expect(e.stored(alice)...)
	e.lose(func() { e.write(alice.Child("kid7")) })
	e.write(bob)
	small.expect(e.stored(bob)...)
	r.expect(e.stored(alice)...)
}

// TestManyTrees follows more trees than are compared in one request.
func TestManyTrees(t *testing.T) {
	srv := natstest.Start(t)
	e := newEnv(t, srv.JetStream(t), 1)
	f := follower(t, srv.Conn(t))
	roots := make([]chunk.Session, 600)
	readers := make([]*reader, len(roots))
	for i := range roots {
		roots[i] = chunk.RootSession("acme", fmt.Sprint("root", i))
		readers[i] = follow(t, f, roots[i], 0)
	}
	e.lose(func() {
		for i := 0; i < len(roots); i += 100 {
			e.write(roots[i])
		}
	})
	for i, r := range readers {
		var want []uint64
		if i%100 == 0 {
			want = e.stored(roots[i])
		}
		r.expect(want...)
	}
}

// TestLeaderChanges has the leader of the stream step down, and one be killed, while messages are stored: no message is missing without an error.
func TestLeaderChanges(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	e := newEnv(t, cluster.JetStream(t), 3)
	cluster.AwaitCurrent(t, e.stream)
	f := follower(t, cluster.Conn(t))
	sessions := []chunk.Session{alice, kid, bob, bob.Child("a"), bob.Child("b")}
	readers := map[chunk.Session]*reader{alice: follow(t, f, alice, 0), bob: follow(t, f, bob, 0)}
	change := func(f func()) {
		t.Helper()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		for n := 0; ; n++ {
			e.write(sessions[n%len(sessions)])
			select {
			case <-done:
				return
			default:
			}
		}
	}
	check := func() {
		t.Helper()
		for root, r := range readers {
			r.expect(e.stored(root)...)
		}
	}
	for range 3 {
		change(func() { cluster.StepDown(t, e.stream) })
		check()
	}
	cluster.Kill(t, cluster.Leader(t, e.stream))
	for range 20 {
		for _, s := range sessions {
			e.write(s)
		}
	}
	check()
}

func TestConfigIsChecked(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := jsinterest.New(js, jsinterest.Config{Interval: -1}); err == nil || !strings.HasPrefix(err.Error(), "Interval is ") {
		t.Errorf("err = %v", err)
	}
	// Without a stream, a feed ends.
	f := follower(t, js.Conn())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, err := range f.Open(ctx, f.Scope(alice), 0) {
		if err == nil {
			t.Error("a message without a stream")
		}
	}
}
