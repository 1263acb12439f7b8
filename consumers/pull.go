package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

var (
	// errEnd: there is nothing more at present, and nobody wants to wait.
	errEnd = errors.New("present end of the log")

	// errSilence: nothing but heartbeats for a while. Only those who watch for
	// it are told; the next call goes on.
	errSilence = errors.New("nothing new")

	// errUnpinned: the consumer serves another client now.
	errUnpinned = errors.New("not the pinned client")

	// errAlarm: the alarm that the caller had set went off.
	errAlarm = errors.New("alarm")
)

// lostError: the consumer is of no use any more and has to be replaced.
type lostError struct{ why string }

func (e *lostError) Error() string { return "consumer lost: " + e.why }

func lost(why string) error { return &lostError{why: why} }

// pull gets the deliveries of one pull consumer after the other, in order and
// without a hole as long as the consumer lives. It belongs to one goroutine
// and starts none.
type pull struct {
	api    *api
	cfg    Config
	stream string

	live   bool          // wait at the end; otherwise errEnd
	batch  int           // most messages asked for at a time
	bytes  int           // … and most bytes
	expiry time.Duration // of a request of a live pull

	// Of the connection, for as long as the pull is open.
	status chan nats.Status
	ticks  *time.Ticker
	alarm  <-chan time.Time // nil for none

	// Of the present consumer.
	consumer  string             // "" when there is none
	sub       *nats.Subscription // of this consumer's inbox
	msgs      chan *nats.Msg
	pin       string // what a pinned consumer wants to see in requests, JSON members with a leading comma
	consumed  uint64 // deliveries so far
	asked     int    // messages asked for that did not come yet
	left      uint64 // of a pull that is not live: messages to the present end
	denied    bool   // the server said that nothing is there, and left had said something else
	unbounded bool   // the next request has no limit of bytes
	served    bool   // a message came since the last request that was ended by its bytes
	quiet     int    // ticks since anything was heard
	silent    int    // ticks since a message was heard

	watchSilence bool
	standby      bool // another client gets the deliveries, so their numbers say nothing here
}

// entry is one delivered message.
type entry struct {
	seq     chunk.Seq
	subject string
	header  nats.Header
	data    []byte
	stored  int64  // Unix nanoseconds
	pending uint64 // messages of the filter after this one
	reply   string // where to acknowledge it

	archived *chunk.Record // what it was read as when it was archived, instead of header and data
}

func (e *entry) time() time.Time { return time.Unix(0, e.stored).UTC() }

// record reads the entry as a record of s; *codec.EnvelopeError.
func (e *entry) record(s chunk.Session) (chunk.Record, error) {
	if e.archived != nil {
		return *e.archived, nil
	}
	return codec.Decode(s, e.seq, e.time(), e.header, e.data)
}

const (
	// maxBytes of one request, so that a reader never holds more than twice that.
	maxBytes = 8 << 20

	// quietLive is after how many heartbeat intervals in vain a consumer is
	// given up; quietReplay is the same for requests that have no heartbeats and
	// whose answer a busy server may be looking for.
	quietLive   = 3
	quietReplay = 10

	// expiryBeats is how many heartbeats a request lasts.
	expiryBeats = 15
)

// open begins to listen to the connection.
func (p *pull) open() {
	p.status = p.api.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	p.ticks = time.NewTicker(p.cfg.Heartbeat)
}

func (p *pull) close() {
	p.leave()
	if p.ticks != nil {
		p.api.nc.RemoveStatusListener(p.status)
		p.ticks.Stop()
	}
}

// enter listens on a new inbox and says its last token, which nobody else has:
// a name for a consumer. What is still on its way to an older inbox is lost.
func (p *pull) enter() (string, error) {
	p.leave()
	inbox := p.api.nc.NewInbox()
	// Besides messages there is room for the words that end requests and for
	// the heartbeats of those that are open while the reader is busy elsewhere.
	p.msgs = make(chan *nats.Msg, 2*p.batch+4*expiryBeats)
	sub, err := p.api.nc.ChanSubscribe(inbox, p.msgs)
	if err != nil {
		return "", err
	}
	p.sub = sub
	p.consumed, p.asked, p.left, p.quiet, p.silent = 0, 0, 0, 0, 0
	p.denied, p.unbounded, p.served = false, false, true
	return inbox[strings.LastIndexByte(inbox, '.')+1:], nil
}

// leave gives the inbox up.
func (p *pull) leave() {
	if p.sub == nil {
		return
	}
	if err := p.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.cfg.Log.Debug("an inbox could not be given up", slog.Any("error", err))
	}
	p.sub = nil
}

// forgetStatus drops what happened to the connection until now.
func (p *pull) forgetStatus() {
	for {
		select {
		case <-p.status:
		default:
			return
		}
	}
}

// next waits for the next message. The error is a *lostError, errEnd,
// errSilence, errAlarm, that of ctx, or one of the connection.
func (p *pull) next(ctx context.Context) (entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return entry{}, err
		}
		if err := p.ask(); err != nil {
			if errors.Is(err, nats.ErrConnectionClosed) {
				return entry{}, err
			}
			return entry{}, lost(err.Error()) // the client's buffer for reconnects is full, perhaps
		}
		if !p.live && p.asked == 0 {
			return entry{}, errEnd
		}
		var m *nats.Msg
		select {
		case m = <-p.msgs:
		default:
			var err error
			if m, err = p.wait(ctx); err != nil {
				return entry{}, err
			}
		}
		if e, ok, err := p.take(m); ok || err != nil {
			return e, err
		}
	}
}

// wait blocks until a message came.
func (p *pull) wait(ctx context.Context) (*nats.Msg, error) {
	for {
		select {
		case m := <-p.msgs:
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.alarm:
			return nil, errAlarm
		case s := <-p.status:
			// After a reconnect our requests are gone with the old connection,
			// and so is what the server sent into it.
			if s == nats.CLOSED {
				return nil, nats.ErrConnectionClosed
			}
			return nil, lost("reconnected")
		case <-p.ticks.C:
			if err := p.tick(); err != nil {
				return nil, err
			}
		}
	}
}

func (p *pull) tick() error {
	p.quiet++
	p.silent++
	limit := quietLive
	if !p.live {
		limit = quietReplay
	}
	switch {
	case p.quiet >= limit:
		return lost("no heartbeat")
	case p.watchSilence && p.silent > 1:
		p.silent = 0
		return errSilence
	}
	return nil
}

// idle reports whether next would have to wait.
func (p *pull) idle() bool { return len(p.msgs) == 0 }

// ask keeps the server supplied with requests: a live pull always has half of
// them open, so that the next message finds one; the others ask for what there
// is and get an answer at its end.
func (p *pull) ask() error {
	batch := p.batch
	if p.live {
		if p.asked > p.batch/2 {
			return nil
		}
		batch -= p.asked
	} else {
		if p.asked > 0 || p.left == 0 {
			return nil
		}
		batch = int(min(p.left, uint64(p.batch)))
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
		req = strconv.AppendInt(req, int64(p.cfg.Heartbeat), 10)
	} else {
		req = append(req, `,"no_wait":true`...)
	}
	req = append(req, p.pin...)
	req = append(req, '}')
	p.unbounded = false
	p.asked += batch
	return p.api.nc.PublishRequest(p.api.prefix+"CONSUMER.MSG.NEXT."+p.stream+"."+p.consumer, p.sub.Subject, req)
}

// take looks at what came: a message of the stream, or word about a request.
func (p *pull) take(m *nats.Msg) (e entry, ok bool, err error) {
	p.quiet = 0
	if status := statusOf(m); status != "" {
		return entry{}, false, p.takeStatus(status, m)
	}
	d, ok := parseDelivery(m.Reply)
	if !ok {
		return entry{}, false, fmt.Errorf("a message without delivery data: %q", m.Reply)
	}
	// Each delivery of a consumer has the next number. Another one means that a
	// message was lost between the server and us, or went to somebody else.
	if d.consumed != p.consumed+1 && !p.standby {
		return entry{}, false, lost("a delivery is missing")
	}
	p.consumed++
	p.asked--
	p.silent = 0
	p.served = true
	if p.left > 0 {
		p.left--
	}
	return entry{
		seq:     chunk.Seq(d.seq),
		subject: m.Subject,
		header:  m.Header,
		data:    m.Data,
		stored:  d.stored,
		pending: d.pending,
		reply:   m.Reply,
	}, true, nil
}

// takeStatus handles word about a request.
func (p *pull) takeStatus(status string, m *nats.Msg) error {
	text := description(m)
	switch {
	case status == "100":
		// The heartbeat follows what was delivered before it. When it counts
		// more than we got, the rest is lost.
		if n, ok := parseNumber(m.Header.Get("Nats-Last-Consumer")); ok && n > p.consumed && !p.standby {
			return lost("a delivery is missing")
		}
		return nil
	case status == "404": // what we were told to expect was deleted meanwhile, or the server has lost count
		p.denied = p.left > 0
		p.asked, p.left = 0, 0
		return nil
	case status == "408", status == "409" && strings.Contains(text, "batch completed"):
		p.asked = max(0, p.asked-unserved(m))
		return nil
	case status == "409" && strings.Contains(text, "maxbytes"):
		p.asked = max(0, p.asked-unserved(m))
		p.unbounded, p.served = !p.served, false // one message larger than the limit would end every request
		return nil
	case status == "423":
		return errUnpinned
	}
	return lost(status + " " + text)
}

// persist attaches: it calls attach until it succeeds, fails for good or
// patience is over; no patience is for as long as ctx lasts. A reconnect cuts
// the pause between two attempts short.
//
// An attempt runs without the caller's cancellation, but with a time limit: a
// request that is cut short may be carried out all the same, after we have
// said that the consumer is to be deleted.
func (p *pull) persist(ctx context.Context, patience time.Duration, attach func(context.Context) error, final func(error) bool) error {
	began, told := time.Now(), false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.forgetStatus()
		err := p.api.attempt(context.WithoutCancel(ctx), attach)
		switch {
		case err == nil || final(err):
			return err
		case patience > 0 && time.Since(began) > patience:
			return fmt.Errorf("NATS did not answer within %s: %w", patience, err)
		case !told && time.Since(began) > p.cfg.Patience:
			told = true
			p.cfg.Log.Warn("a reader waits for NATS", slog.String("stream", p.stream), slog.Any("error", err))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-p.status:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}
