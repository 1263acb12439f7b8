package jsclient

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrNotConnected reports that the connection was down when a message was to be sent: it was not sent.
var ErrNotConnected = errors.New("not connected")

// Publisher publishes to many subjects over one connection. It has one subscription for all responses, and watches the status of the connection.
//
// It replaces the request method of the client library for three reasons:
//
//   - A response that arrives after its attempt has ended still counts: it is the result of the message, which the next attempt would ask for.
//   - If the connection breaks, the library lets requests time out. Here they end at once, and the caller repeats them as soon as the connection is back.
//   - It saves a timer, a context, a random token and two map entries for each message, which is the cost of the rest of a producers.Run.
type Publisher struct {
	nc      *nats.Conn
	inbox   string        // prefix of the reply subjects, with the dot
	timeout time.Duration // of one attempt
	sub     *nats.Subscription
	watcher sync.WaitGroup

	mu           sync.Mutex       // guards the fields below
	statusEvents chan nats.Status // nil once closed
	replyQueues  map[string]*replyQueue
	count        uint64
	disconnected chan struct{} // closed when the present connection breaks
	connected    chan struct{} // closed while there is a connection

	batches     sync.Map   // batchSupport by the name of the stream
	batch       sync.Mutex // guards the sending of a batch, and batchCount
	batchCount  uint64
	batchPrefix string // of the ids of batches, unique for each Publisher
}

// replyQueue holds the responses for one SubjectPublisher.
type replyQueue struct {
	name      string
	responses chan *nats.Msg
}

// replyQueueSize exceeds the number of attempts of one message that are in flight at a time.
const replyQueueSize = 8

// NewPublisher returns a Publisher on the connection of c with the timeout of one attempt to publish. It starts a subscription and a goroutine, which Close ends.
func NewPublisher(c *Client, attemptTimeout time.Duration) (*Publisher, error) {
	p := &Publisher{
		nc:           c.nc,
		inbox:        c.nc.NewInbox() + ".",
		timeout:      attemptTimeout,
		replyQueues:  map[string]*replyQueue{},
		disconnected: make(chan struct{}),
		connected:    make(chan struct{}),
		batchPrefix:  rand.Text()[:8] + ".",
	}
	sub, err := p.nc.Subscribe(p.inbox+"*.*", p.deliver)
	if err != nil {
		return nil, err
	}
	p.sub = sub
	events := p.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	p.statusEvents = events
	p.onStatus(nats.CONNECTED)
	p.watcher.Go(func() {
		for s := range events {
			p.onStatus(s)
		}
	})
	return p, nil
}

// onStatus updates the two signals. The client drops events that come too fast, so a waiting caller also checks the connection itself.
func (p *Publisher) onStatus(s nats.Status) {
	connected := p.nc.IsConnected()
	p.mu.Lock()
	defer p.mu.Unlock()
	if s != nats.CONNECTED { // the connection may be back already, but messages in flight are lost
		close(p.disconnected)
		p.disconnected = make(chan struct{})
	}
	switch up := isClosed(p.connected); {
	case connected && !up:
		close(p.connected)
	case !connected && up:
		p.connected = make(chan struct{})
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// open adds a reply queue.
func (p *Publisher) open() *replyQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	q := &replyQueue{name: strconv.FormatUint(p.count, 36), responses: make(chan *nats.Msg, replyQueueSize)}
	p.replyQueues[q.name] = q
	return q
}

func (p *Publisher) closeReplies(q *replyQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.replyQueues, q.name)
}

// deliver adds a response to its reply queue. It runs on the goroutine of the subscription and does no work, because all callers wait for it.
func (p *Publisher) deliver(m *nats.Msg) {
	name, _, _ := strings.Cut(m.Subject[len(p.inbox):], ".")
	p.mu.Lock()
	q := p.replyQueues[name]
	p.mu.Unlock()
	if q == nil {
		return
	}
	for {
		select {
		case q.responses <- m:
			return
		default:
		}
		select { // the oldest one is of an earlier message
		case <-q.responses:
		default:
		}
	}
}

// connection waits for the connection, at most for the timeout of an attempt, and returns the channel that is closed when it breaks.
func (p *Publisher) connection(ctx context.Context, abandon <-chan struct{}) (broken <-chan struct{}, err error) {
	p.mu.Lock()
	down, up := p.disconnected, p.connected
	p.mu.Unlock()
	if isClosed(up) || p.nc.IsConnected() {
		return down, nil
	}
	if p.nc.IsClosed() {
		return nil, nats.ErrConnectionClosed
	}
	t := time.NewTimer(p.timeout)
	defer t.Stop()
	select {
	case <-up:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.disconnected, nil
	case <-t.C:
	case <-abandon:
	case <-ctx.Done():
	}
	return nil, ErrNotConnected
}

// Close ends the goroutine and the subscription. A second Close returns nil.
func (p *Publisher) Close() error {
	p.mu.Lock()
	events := p.statusEvents
	p.statusEvents = nil
	p.mu.Unlock()
	if events == nil {
		return nil
	}
	p.nc.RemoveStatusListener(events)
	p.watcher.Wait()
	if err := p.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		return err
	}
	return nil
}
