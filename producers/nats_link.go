package producers

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// link is what all runs of a Producer share of one connection: a subscription
// for the answers to their publishes, and the news of the connection.
//
// It stands in for the client's own request method, for three reasons:
//
//   - an answer that comes after its attempt was given up still counts: it tells
//     what became of the message, which is what the next attempt asks;
//   - the client leaves requests to time out when their connection breaks; here
//     they end at once and are sent again as soon as it is back;
//   - it is cheaper by a timer, a context, a random token and two map entries
//     for each message, which pays for the rest of a Run.
type link struct {
	nc      *nats.Conn
	api     string        // what subjects of the JetStream API begin with
	inbox   string        // what the reply subjects begin with, with the dot
	timeout time.Duration // of one attempt or request
	slog    *slog.Logger
	sub     *nats.Subscription
	watcher sync.WaitGroup

	mu    sync.Mutex       // guards the fields below
	news  chan nats.Status // nil once closed
	desks map[string]*desk
	count uint64
	down  chan struct{} // closed when the present connection breaks
	up    chan struct{} // closed while there is a connection
}

// desk is where one run waits for answers.
type desk struct {
	name    string
	answers chan *nats.Msg
}

// deskSize is more than there are attempts at one message under way at a time.
const deskSize = 8

func newLink(nc *nats.Conn, js jetstream.JetStream, cfg Config) (*link, error) {
	l := &link{
		nc:      nc,
		api:     apiPrefix(js.Options()),
		inbox:   nc.NewInbox() + ".",
		timeout: cfg.Attempt,
		slog:    cfg.Log,
		desks:   map[string]*desk{},
		down:    make(chan struct{}),
		up:      make(chan struct{}),
	}
	sub, err := nc.Subscribe(l.inbox+"*.*", l.deliver)
	if err != nil {
		return nil, err
	}
	l.sub = sub
	news := nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	l.news = news
	l.hear(nats.CONNECTED)
	l.watcher.Go(func() {
		for s := range news {
			l.hear(s)
		}
	})
	return l, nil
}

func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return "$JS.API."
}

// hear keeps the two signals. The client drops news when they come too fast, so
// who waits asks the connection itself as well.
func (l *link) hear(s nats.Status) {
	connected := l.nc.IsConnected()
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != nats.CONNECTED { // it may be back already, but what was under way is lost
		close(l.down)
		l.down = make(chan struct{})
	}
	switch up := isClosed(l.up); {
	case connected && !up:
		close(l.up)
	case !connected && up:
		l.up = make(chan struct{})
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

// open gives a run its desk.
func (l *link) open() *desk {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	d := &desk{name: strconv.FormatUint(l.count, 36), answers: make(chan *nats.Msg, deskSize)}
	l.desks[d.name] = d
	return d
}

func (l *link) shut(d *desk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.desks, d.name)
}

// deliver puts an answer on the desk it is for. It runs on the subscription's
// goroutine and does no work, because all runs wait for it.
func (l *link) deliver(m *nats.Msg) {
	name, _, _ := strings.Cut(m.Subject[len(l.inbox):], ".")
	l.mu.Lock()
	d := l.desks[name]
	l.mu.Unlock()
	if d == nil {
		return
	}
	for {
		select {
		case d.answers <- m:
			return
		default:
		}
		select { // the oldest is about something decided long ago
		case <-d.answers:
		default:
		}
	}
}

// connection waits until there is one, for at most an attempt, and returns the
// signal that it broke.
func (l *link) connection(ctx context.Context, left <-chan struct{}) (broke <-chan struct{}, err error) {
	l.mu.Lock()
	down, up := l.down, l.up
	l.mu.Unlock()
	if isClosed(up) || l.nc.IsConnected() {
		return down, nil
	}
	if l.nc.IsClosed() {
		return nil, errConnClosed
	}
	t := time.NewTimer(l.timeout)
	defer t.Stop()
	select {
	case <-up:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.down, nil
	case <-t.C:
	case <-left:
	case <-ctx.Done():
	}
	return nil, errNotConnected
}

// request asks the JetStream API.
func (l *link) request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	m, err := l.nc.RequestWithContext(ctx, l.api+subject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errNobody
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, errConnClosed
	case errors.Is(err, context.DeadlineExceeded):
		return nil, errTimeout
	}
	return m, err
}

// close ends the goroutine and the subscription.
func (l *link) close() error {
	l.mu.Lock()
	news := l.news
	l.news = nil
	l.mu.Unlock()
	if news == nil {
		return nil
	}
	l.nc.RemoveStatusListener(news)
	l.watcher.Wait()
	if err := l.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		return err
	}
	return nil
}
