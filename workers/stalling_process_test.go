package workers

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stallingProcess is a process whose connection stalls at one of its writes.
type stallingProcess struct {
	*component

	conn *stallingDialer
}

func (tr *tree) stallingProcess() *stallingProcess {
	d := &stallingDialer{stalled: make(chan struct{}), resumed: make(chan struct{})}
	if tr.random.IntN(2) == 0 {
		d.dies = 1 + tr.random.Int64N(8)
	}
	if tr.random.IntN(512) == 0 { // rarely, because the others of the batch wait: attempts of requests time out, or all of them
		d.lasts = []time.Duration{2600 * time.Millisecond, 6 * time.Second}[tr.random.IntN(2)]
	}
	nc, err := nats.Connect(tr.w.Server.URL, nats.SetCustomDialer(d), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		tr.w.t.Error(err)
		return nil
	}
	js, err := jetstream.New(nc)
	if err != nil {
		tr.w.t.Error(err)
	}
	p := &stallingProcess{tr.open(js), d}
	d.left.Store(1 + tr.random.Int64N(30)) // a connection that stalls has its lock, and open subscribes
	return p
}

type stallingDialer struct {
	left    atomic.Int64 // writes before it stalls; 0 or less before the connection is established
	dies    int64        // the write at which the process dies, 1 for the one at which it has stalled; 0 if it lives on
	stalled chan struct{}
	resumed chan struct{}
	lasts   time.Duration // the stall, at least
}

func (d *stallingDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).Dial(network, address)
	return &stallingConn{Conn: conn, dialer: d}, err
}

// release ends the stall: the process continues or dies.
func (d *stallingDialer) release() { close(d.resumed) }

// die ends the stall: the process dies.
func (d *stallingDialer) die() {
	d.dies = 1
	d.release()
}

type stallingConn struct {
	net.Conn

	dialer *stallingDialer
	left   int64 // writes until the process dies, after its stall; 0 if it lives on
}

var errProcessDied = errors.New("the process died")

// Write is not called concurrently.
func (c *stallingConn) Write(b []byte) (int, error) {
	if c.dialer.left.Add(-1) == 0 {
		close(c.dialer.stalled)
		least := time.After(c.dialer.lasts)
		<-c.dialer.resumed
		<-least
		c.left = c.dialer.dies
	}
	if c.left > 1 {
		c.left--
	} else if c.left == 1 {
		_ = c.Close()
		return 0, errProcessDied
	}
	return c.Conn.Write(b)
}
