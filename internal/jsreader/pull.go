package jsreader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

var (
	// ErrEnd reports the present end of the stream to a reader that is not live.
	ErrEnd = errors.New("present end of the stream")

	// ErrSilence reports that only heartbeats arrived for some time, see WatchSilence; the next call continues.
	ErrSilence = errors.New("no message for a while")

	// errNotPinned reports that the server serves another client of the consumer.
	errNotPinned = errors.New("not the pinned client")

	// errWake reports that the wake channel of the caller fired.
	errWake = errors.New("woken")
)

// consumerLostError reports an unusable consumer, which must be replaced.
type consumerLostError struct{ reason string }

func (e *consumerLostError) Error() string { return "consumer lost: " + e.reason }

func consumerLost(reason string) error { return &consumerLostError{reason: reason} }

// pull gets the deliveries of one pull consumer after the other, in order and without a gap for as long as the consumer exists. It belongs to one
// goroutine and starts none.
type pull struct {
	client    *jsclient.Client
	conn      *nats.Conn // of client
	stream    string
	heartbeat time.Duration
	warnAfter time.Duration
	log       *slog.Logger

	live   bool          // wait at the end; otherwise ErrEnd
	batch  int           // maximum number of messages of a request
	bytes  int           // maximum number of bytes of a request
	expiry time.Duration // of a request of a live pull

	// Of the connection, for as long as the pull is open.
	status chan nats.Status
	ticks  *time.Ticker
	wake   <-chan time.Time // nil for none

	// Of the present consumer.
	consumer       string             // "" for none
	sub            *nats.Subscription // of this consumer's inbox
	msgs           chan *nats.Msg
	pin            string // what a pinned consumer wants in requests: JSON members with a leading comma
	consumed       uint64 // deliveries so far
	uncounted      bool   // the number of the first delivery is not known
	asked          int    // requested messages that have not arrived yet
	remaining      uint64 // of a pull that is not live: messages to the present end
	rejected       bool   // the server reported that it has no message, although remaining was not 0
	unbounded      bool   // the next request has no limit of bytes
	served         bool   // a message arrived after the last request that was ended by its bytes
	refusals       int    // requests that the server has refused, also of earlier consumers, since it accepted one
	ticksSinceData int    // ticks since a message or a heartbeat arrived
	ticksSinceMsg  int    // ticks since a message arrived

	watchSilence  bool
	waitingForPin bool // another client gets the deliveries, so their numbers are not checked
}

// Entry is one delivered message.
type Entry struct {
	jsclient.Message

	Pending    uint64 // messages of the filter after this one
	Deliveries uint64 // number of deliveries of the message: 1 for the first

	reply string // subject of its acknowledgement
}

const (
	// maxBytes is the maximum size of the response to one request; a reader holds at most twice that.
	maxBytes = 8 << 20

	// maxQuietLive is the number of heartbeat intervals without any data after which a consumer counts as lost. maxQuietReplay is the same for requests
	// without heartbeats, for whose response a busy server may still be scanning the stream.
	maxQuietLive   = 3
	maxQuietReplay = 10

	// maxRefusals is the maximum number of refused requests for one consumer of a pull that is not live. The server that has created the consumer may respond
	// before the subscription of the consumer has reached the server of this client; then a request gets status 503.
	maxRefusals = 5

	// expiryBeats is the lifetime of a request in heartbeats.
	expiryBeats = 15
)

func (p *pull) defaults() {
	p.heartbeat = cmp.Or(p.heartbeat, 2*time.Second)
	p.warnAfter = cmp.Or(p.warnAfter, 10*time.Second)
	p.log = cmp.Or(p.log, slog.New(slog.DiscardHandler))
}

// listen subscribes to the status of the connection.
func (p *pull) listen() {
	p.status = p.conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	p.ticks = time.NewTicker(p.heartbeat)
}

func (p *pull) close() {
	p.unsubscribe()
	if p.ticks != nil {
		p.conn.RemoveStatusListener(p.status)
		p.ticks.Stop()
		p.ticks = nil
	}
}

// subscribe listens on a new inbox and returns its last token, which is unique: a name for a consumer. Messages in flight to an older inbox are lost.
func (p *pull) subscribe() (string, error) {
	p.unsubscribe()
	inbox := p.conn.NewInbox()
	// The channel holds messages, the statuses that end requests, and the heartbeats that arrive while the caller of the reader is busy.
	p.msgs = make(chan *nats.Msg, 2*p.batch+4*expiryBeats)
	sub, err := p.conn.ChanSubscribe(inbox, p.msgs)
	if err != nil {
		return "", err
	}
	p.sub = sub
	p.consumed, p.asked, p.remaining, p.ticksSinceData, p.ticksSinceMsg = 0, 0, 0, 0, 0
	p.rejected, p.unbounded, p.served, p.uncounted = false, false, true, false
	return inbox[strings.LastIndexByte(inbox, '.')+1:], nil
}

// unsubscribe drops the inbox.
func (p *pull) unsubscribe() {
	if p.sub == nil {
		return
	}
	if err := p.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.log.Debug("inbox not unsubscribed", slog.Any("error", err))
	}
	p.sub = nil
}

// forgetStatus drops the status changes of the connection until now.
func (p *pull) forgetStatus() {
	for {
		select {
		case <-p.status:
		default:
			return
		}
	}
}

// next blocks until the next message. The error is a *consumerLostError, ErrEnd, ErrSilence, errWake, that of ctx, or one of the connection.
func (p *pull) next(ctx context.Context) (Entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Entry{}, err
		}
		if p.refusals > 0 && p.asked == 0 {
			if err := wait.Sleep(ctx, refusalBackoff.Delay(p.refusals)); err != nil {
				return Entry{}, err
			}
		}
		if err := p.ask(); err != nil {
			if errors.Is(err, nats.ErrConnectionClosed) {
				return Entry{}, err
			}
			return Entry{}, consumerLost(err.Error()) // for example, the reconnect buffer of the client is full
		}
		if !p.live && p.asked == 0 {
			return Entry{}, ErrEnd
		}
		var m *nats.Msg
		select {
		case m = <-p.msgs:
		default:
			var err error
			if m, err = p.wait(ctx); err != nil {
				return Entry{}, err
			}
		}
		if e, ok, err := p.handleMsg(m); ok || err != nil {
			return e, err
		}
	}
}

// nextQueued returns the next message if it has arrived already.
func (p *pull) nextQueued() (e Entry, ok bool, err error) {
	for {
		select {
		case m := <-p.msgs:
			if e, ok, err = p.handleMsg(m); ok || err != nil {
				return e, ok, err
			}
		default:
			return Entry{}, false, nil
		}
	}
}

// wait blocks until a message arrives.
func (p *pull) wait(ctx context.Context) (*nats.Msg, error) {
	for {
		select {
		case m := <-p.msgs:
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.wake:
			return nil, errWake
		case s := <-p.status:
			// The requests of the old connection, and the messages that the server sent to it, are lost.
			if s == nats.CLOSED {
				return nil, nats.ErrConnectionClosed
			}
			return nil, consumerLost("reconnected")
		case <-p.ticks.C:
			if err := p.tick(); err != nil {
				return nil, err
			}
		}
	}
}

func (p *pull) tick() error {
	p.ticksSinceData++
	p.ticksSinceMsg++
	limit := maxQuietLive
	if !p.live {
		limit = maxQuietReplay
	}
	switch {
	case p.ticksSinceData >= limit:
		return consumerLost("no heartbeat")
	case p.watchSilence && (p.waitingForPin || p.ticksSinceMsg > 1):
		p.ticksSinceMsg = 0
		return ErrSilence
	}
	return nil
}

// refusalBackoff is the delay after a request that the server refuses at once: otherwise a pull would repeat the request immediately and indefinitely.
var refusalBackoff = wait.Backoff{First: 5 * time.Millisecond, Max: jsclient.ReadBackoff.Max}

// ask sends the next request when at most half of a batch is requested, so that the server can deliver the next message at once. A pull that is not live
// requests only existing messages, and gets a response at their end.
func (p *pull) ask() error {
	if p.asked > p.batch/2 {
		return nil
	}
	batch := p.batch - p.asked
	if !p.live {
		if p.remaining <= uint64(p.asked) {
			return nil
		}
		batch = int(min(p.remaining-uint64(p.asked), uint64(batch)))
	}
	req := make([]byte, 0, 160)
	req = append(req, `{"batch":`...)
	req = strconv.AppendInt(req, int64(batch), 10)
	if !p.unbounded {
		req = append(req, `,"max_bytes":`...)
		req = strconv.AppendInt(req, int64(p.bytes), 10)
	}
	if p.live {
		req = append(req, `,"expires":`...)
		req = strconv.AppendInt(req, int64(p.expiry), 10)
		req = append(req, `,"idle_heartbeat":`...)
		req = strconv.AppendInt(req, int64(p.heartbeat), 10)
	} else {
		req = append(req, `,"no_wait":true`...)
	}
	req = append(req, p.pin...)
	req = append(req, '}')
	p.unbounded = false
	p.asked += batch
	return p.conn.PublishRequest(p.nextSubject(), p.sub.Subject, req)
}

// nextSubject returns the subject of requests to the consumer.
func (p *pull) nextSubject() string {
	return p.client.APISubject("CONSUMER.MSG.NEXT.") + p.stream + "." + p.consumer
}

// handleMsg handles a message of the stream or the status of a request.
func (p *pull) handleMsg(m *nats.Msg) (e Entry, ok bool, err error) {
	p.ticksSinceData = 0
	if status := statusOf(m); status != "" {
		return Entry{}, false, p.takeStatus(status, m)
	}
	d, ok := parseDelivery(m.Reply)
	if !ok {
		return Entry{}, false, fmt.Errorf("message without delivery data: reply %q", m.Reply)
	}
	if p.uncounted {
		p.consumed, p.uncounted = d.consumed-1, false
	}
	// Each delivery of a consumer has the next number. Another number means that a message was lost in flight or went to another client.
	if d.consumed != p.consumed+1 && !p.waitingForPin {
		return Entry{}, false, consumerLost("delivery missing")
	}
	p.consumed++
	p.asked--
	p.refusals = 0
	p.ticksSinceMsg = 0
	p.served = true
	if p.remaining > 0 {
		p.remaining--
	}
	return Entry{
		Message:    jsclient.Message{Seq: d.seq, Subject: m.Subject, Header: m.Header, Data: m.Data, Stored: time.Unix(0, d.stored).UTC()}.WithoutCopy(0),
		Pending:    d.pending,
		Deliveries: d.count,
		reply:      m.Reply,
	}, true, nil
}

// takeStatus handles the status of a request.
func (p *pull) takeStatus(status string, m *nats.Msg) error {
	text := strings.ToLower(m.Header.Get(descriptionHeader))
	refusals := p.refusals
	p.refusals = 0
	switch {
	case status == "100":
		// A heartbeat arrives after the messages that were delivered before it. If it counts more deliveries than have arrived, the others are lost.
		if n, ok := parseNumber(m.Header.Get("Nats-Last-Consumer")); ok && n > p.consumed && !p.waitingForPin && !p.uncounted {
			return consumerLost("delivery missing")
		}
		return nil
	case status == "404": // the messages that the server counted were deleted meanwhile, or its count is wrong
		p.rejected = p.remaining > 0
		p.asked, p.remaining = 0, 0
		return nil
	case status == "408", status == "409" && strings.Contains(text, "batch completed"):
		p.asked = max(0, p.asked-unserved(m))
		return nil
	case status == "409" && strings.Contains(text, "maxbytes"):
		p.asked = max(0, p.asked-unserved(m))
		p.unbounded, p.served = !p.served, false // one message larger than the limit would end every request
		return nil
	case status == "423":
		return errNotPinned
	case status == "503" && !p.live && refusals < maxRefusals:
		p.refusals, p.asked = refusals+1, 0
		return nil
	}
	p.refusals = refusals + 1
	return consumerLost(status + " " + text)
}

// streamState returns the state of the stream.
func (p *pull) streamState(ctx context.Context) (jsclient.State, error) {
	return jsclient.Request(ctx, func(ctx context.Context) (jsclient.State, error) { return p.client.State(ctx, p.stream, "") })
}

// persist calls attach until it succeeds, fails for good or timeout is over; a timeout of 0 is for as long as ctx lasts. A reconnect ends the pause
// between two attempts.
//
// attach makes its requests by jsclient.Request, without the cancellation of the caller but with a timeout: the server may still carry out a cancelled
// request, after it got the request to delete the consumer.
func (p *pull) persist(ctx context.Context, timeout time.Duration, attach func(context.Context) error, final func(error) bool) error {
	began, warned := time.Now(), false
	trying := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		trying, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.forgetStatus()
		err := p.client.Requests(trying, attach)
		switch {
		case err == nil || final(err):
			return err
		case timeout > 0 && time.Since(began) >= timeout:
			return fmt.Errorf("no response from NATS within %s: %w", timeout, err)
		case !warned && time.Since(began) > p.warnAfter:
			warned = true
			p.log.Warn("reader not attached", slog.String("stream", p.stream), slog.Any("error", err))
		}
		timer := time.NewTimer(jsclient.ReadBackoff.Delay(attempt))
		select {
		case <-timer.C:
		case <-p.status:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

const (
	statusHeader      = "Status"
	descriptionHeader = "Description"
)

// statusOf returns the status of a message that the server sent about a request, and "" for a message of the stream.
func statusOf(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	values := m.Header[statusHeader]
	if len(values) == 0 || m.Reply != "" {
		return "" // a stored message may have such a header of its own, but never without a reply subject
	}
	return values[0]
}

// unserved returns the number of messages of an ended request that the server will not deliver.
func unserved(m *nats.Msg) int {
	n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
