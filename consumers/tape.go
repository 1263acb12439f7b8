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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

var (
	// errEnd: a tape that is not live came to the present end.
	errEnd = errors.New("end of the tape")

	// errSilence: a live tape heard nothing but heartbeats for a while. Only
	// tapes with watchSilence say so; the next call goes on.
	errSilence = errors.New("nothing new")

	// errRecreated: the stream is no longer the one that the tape began with.
	errRecreated = errors.New("the stream was deleted, made again or rolled back")

	// errFloor: messages that a strict tape had not delivered are gone.
	errFloor = errors.New("the floor of the stream has overtaken the reader")
)

// tapeSpec says what a tape reads.
type tapeSpec struct {
	stream string
	filter string    // "" is everything
	after  chunk.Seq // exclusive; LiveTip is the present end
	live   bool      // go on at the present end and wait
	strict bool      // the floor of the stream must not pass the reader unseen
}

// tape gives the messages of a stream in order, each once, whatever happens to
// connections, servers and consumers on the way: nothing between two messages
// was skipped, except what the stream itself no longer has.
//
// It is a pull loop on an ephemeral consumer. The library's ordered consumer
// does nearly the same; these are the reasons why it is not used here:
//   - it begins anew at the old sequence in a stream that was deleted and made
//     again, and waits there in silence until the new one has grown past it,
//   - after a connection was lost it waits 1, 2, 4 … 10 seconds between its
//     attempts, where we promise to go on within one,
//   - its consumer stays on the server after Stop, and those of its resets are
//     deleted by goroutines nobody can wait for,
//   - it cannot say that the present end is reached without a second request.
//
// A tape belongs to one goroutine and starts none.
type tape struct {
	api  *api
	cfg  Config
	spec tapeSpec
	lost func() // counts the consumers that had to be replaced

	state streamState // when the tape was attached last
	floor chunk.Seq   // first sequence of the stream when last asked
	begun bool        // attached once: from now on state.created is the identity
	last  chunk.Seq   // everything up to here was given out
	// What the message at last was, to notice after a reset that the log was
	// rolled back and written differently since. Zero when last was not read.
	lastStored  int64
	behindSince time.Time

	consumer  string             // "" when there is none to delete
	sub       *nats.Subscription // of this consumer's inbox
	msgs      chan *nats.Msg
	status    chan nats.Status
	ticks     *time.Ticker
	consumed  uint64 // of this consumer
	asked     int    // messages asked for that did not come yet
	left      uint64 // of a tape that is not live: messages to the present end
	unbounded bool   // the next request has no limit of bytes
	served    bool   // a message came since the last request that ended by bytes
	quiet     int    // ticks since anything was heard
	silent    int    // ticks since a message was heard

	watchSilence bool
}

// entry is one message of a tape.
type entry struct {
	seq     chunk.Seq
	subject string
	header  nats.Header
	data    []byte
	stored  int64  // Unix nanoseconds
	pending uint64 // messages of the filter after this one
}

func (e *entry) time() time.Time { return time.Unix(0, e.stored).UTC() }

// record reads the entry as a record of s; *codec.EnvelopeError.
func (e *entry) record(s chunk.Session) (chunk.Record, error) {
	return codec.Decode(s, e.seq, e.time(), e.header, e.data)
}

const (
	batchLive   = 500
	batchReplay = 1000
	maxBytes    = 8 << 20 // of one request, so that a reader never holds more than twice that

	// inactive is when the server deletes a consumer whose reader died without
	// saying so.
	inactive = 30 * time.Second

	// quietLive is after how many heartbeat intervals in vain a consumer is
	// given up; quietReplay is the same for requests that have no heartbeats and
	// whose answer a busy server may be looking for.
	quietLive   = 3
	quietReplay = 10

	// grace is how long a newly elected leader may know less than we have read.
	grace = 3 * time.Second

	// expiry of a request in heartbeats.
	expiry = 15
)

func (r *Reader) newTape(spec tapeSpec) *tape {
	return &tape{
		api:  r.api,
		cfg:  r.cfg,
		spec: spec,
		lost: func() { r.resets.Add(1) },
		last: spec.after,
	}
}

// open attaches the tape for the first time. A tape must be closed even when
// open failed.
func (t *tape) open(ctx context.Context) error {
	t.status = t.api.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	t.ticks = time.NewTicker(t.cfg.Heartbeat)
	return t.reattach(ctx, t.cfg.Patience)
}

// close leaves nothing behind, neither here nor on the server.
func (t *tape) close() {
	t.detach()
	if t.status != nil {
		t.api.nc.RemoveStatusListener(t.status)
		t.ticks.Stop()
	}
}

// next waits for the next message. The error is errEnd, errSilence, errRecreated,
// errFloor, that of ctx, or one of NATS that will not go away.
func (t *tape) next(ctx context.Context) (entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return entry{}, err
		}
		if err := t.ask(); err != nil {
			if err := t.reset(ctx, err); err != nil {
				return entry{}, err
			}
			continue
		}
		if !t.spec.live && t.asked == 0 {
			return entry{}, errEnd
		}
		var m *nats.Msg
		select {
		case m = <-t.msgs:
		default:
			var err error
			if m, err = t.wait(ctx); err != nil {
				return entry{}, err
			}
			if m == nil {
				continue
			}
		}
		e, ok, err := t.take(m)
		if err != nil && !errors.Is(err, errEnd) {
			err = t.reset(ctx, err)
		}
		if ok || err != nil {
			return e, err
		}
	}
}

// wait blocks until a message came. It gives none after it has replaced the
// consumer.
func (t *tape) wait(ctx context.Context) (*nats.Msg, error) {
	for {
		select {
		case m := <-t.msgs:
			return m, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case s := <-t.status:
			// After a reconnect our requests are gone with the old connection,
			// and so is what the server sent into it.
			if s == nats.CLOSED {
				return nil, nats.ErrConnectionClosed
			}
			return nil, t.reset(ctx, errors.New("reconnected"))
		case <-t.ticks.C:
			t.quiet++
			t.silent++
			if t.quiet >= quietLive && (t.spec.live || t.quiet >= quietReplay) {
				return nil, t.reset(ctx, errors.New("no heartbeat"))
			}
			if t.watchSilence && t.silent > 1 {
				t.silent = 0
				return nil, errSilence
			}
		}
	}
}

// ask keeps the server supplied with requests: a live reader always has half
// of them open, so that the next message finds one; the others ask for what
// there is and get an answer at its end.
func (t *tape) ask() error {
	batch := batchLive
	if t.spec.live {
		if t.asked > batchLive/2 {
			return nil
		}
		batch -= t.asked
	} else {
		if t.asked > 0 || t.left == 0 {
			return nil
		}
		batch = int(min(t.left, batchReplay))
	}
	req := make([]byte, 0, 128)
	req = append(req, `{"batch":`...)
	req = strconv.AppendInt(req, int64(batch), 10)
	if !t.unbounded {
		req = append(req, `,"max_bytes":`...)
		req = strconv.AppendInt(req, maxBytes, 10)
	}
	if t.spec.live {
		req = append(req, `,"expires":`...)
		req = strconv.AppendInt(req, int64(expiry*t.cfg.Heartbeat), 10)
		req = append(req, `,"idle_heartbeat":`...)
		req = strconv.AppendInt(req, int64(t.cfg.Heartbeat), 10)
	} else {
		req = append(req, `,"no_wait":true`...)
	}
	req = append(req, '}')
	t.unbounded = false
	t.asked += batch
	return t.api.nc.PublishRequest(t.api.prefix+"CONSUMER.MSG.NEXT."+t.spec.stream+"."+t.consumer, t.sub.Subject, req)
}

// take looks at what came: a message of the stream, or word about a request.
func (t *tape) take(m *nats.Msg) (e entry, ok bool, err error) {
	t.quiet = 0
	if status := statusOf(m); status != "" {
		return entry{}, false, t.takeStatus(status, m)
	}
	d, ok := parseDelivery(m.Reply)
	if !ok {
		return entry{}, false, fmt.Errorf("a message without delivery data: %q", m.Reply)
	}
	// Each delivery of a consumer has the next number. Another one means that a
	// message was lost between the server and us.
	if d.consumed != t.consumed+1 {
		return entry{}, false, errors.New("a delivery was lost")
	}
	t.consumed++
	t.asked--
	t.silent = 0
	t.served = true
	if t.left > 0 {
		t.left--
	}
	if chunk.Seq(d.seq) <= t.last {
		return entry{}, false, nil
	}
	t.last, t.lastStored = chunk.Seq(d.seq), d.stored
	return entry{
		seq:     t.last,
		subject: m.Subject,
		header:  m.Header,
		data:    m.Data,
		stored:  d.stored,
		pending: d.pending,
	}, true, nil
}

// takeStatus handles word about a request. An error is the reason to replace
// the consumer.
func (t *tape) takeStatus(status string, m *nats.Msg) error {
	text := description(m)
	switch {
	case status == "100":
		// The heartbeat follows what was delivered before it. When it counts
		// more than we got, the rest is lost.
		if n, ok := parseNumber(m.Header.Get("Nats-Last-Consumer")); ok && n > t.consumed {
			return errors.New("a delivery was lost")
		}
		return nil
	case status == "404": // nothing there: what we were told to expect was deleted meanwhile
		t.asked, t.left = 0, 0
		return nil
	case status == "408", status == "409" && strings.Contains(text, "batch completed"):
		t.asked = max(0, t.asked-unserved(m))
		return nil
	case status == "409" && strings.Contains(text, "maxbytes"):
		t.asked = max(0, t.asked-unserved(m))
		t.unbounded, t.served = !t.served, false // one message larger than the limit would end every request
		return nil
	}
	return fmt.Errorf("the server says %s %s", status, text)
}

// reset replaces the consumer by one that begins after the last message given
// out.
func (t *tape) reset(ctx context.Context, why error) error {
	t.lost()
	t.cfg.Log.Debug("attaching anew", slog.String("stream", t.spec.stream), slog.Uint64("after", uint64(t.last)), slog.Any("reason", why))
	return t.reattach(ctx, 0)
}

// reattach tries until it succeeds, fails for good or patience is over; no
// patience is for as long as ctx lasts.
func (t *tape) reattach(ctx context.Context, patience time.Duration) error {
	t.detach()
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.forgetStatus()
		err := t.api.attempt(context.WithoutCancel(ctx), t.attach)
		switch {
		case err == nil:
			return nil
		case t.final(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case patience > 0 && time.Since(began) > patience:
			return fmt.Errorf("NATS did not answer within %s: %w", patience, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-t.status: // do not sleep through a reconnect
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// forgetStatus drops what happened to the connection before this attempt.
func (t *tape) forgetStatus() {
	for {
		select {
		case <-t.status:
		default:
			return
		}
	}
}

// final: once begun, the limit of consumers passes (our own old one may count),
// and a missing stream means that it was deleted.
func (t *tape) final(err error) bool {
	if errors.Is(err, errRecreated) || errors.Is(err, errFloor) {
		return true
	}
	if t.begun && errors.Is(err, jetstream.ErrMaximumConsumersLimit) {
		return false
	}
	return final(err)
}

// attach makes a consumer and checks that it reads the same log as before. It
// runs without the caller's cancellation, but with a time limit: a request that
// is cut short may be carried out all the same, after we have said that the
// consumer is to be deleted.
func (t *tape) attach(ctx context.Context) error {
	if t.spec.after == LiveTip {
		state, err := t.api.state(ctx, t.spec.stream)
		if err != nil {
			return err
		}
		t.last, t.spec.after = state.last, state.last
	}
	if err := t.subscribe(); err != nil {
		return err
	}
	c, err := t.api.js.CreateConsumer(ctx, t.spec.stream, jetstream.ConsumerConfig{
		Name:              t.consumer,
		FilterSubject:     t.spec.filter,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(t.last) + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: inactive,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		if t.begun && errors.Is(err, jetstream.ErrStreamNotFound) {
			return errRecreated
		}
		return fmt.Errorf("read %s: %w", t.spec.stream, err)
	}
	t.left = c.CachedInfo().NumPending
	// In this order: a consumer lives and dies with its stream, so whatever it
	// delivers from now on is of the stream whose state we get here.
	state, err := t.api.state(ctx, t.spec.stream)
	if err != nil {
		if t.begun && errors.Is(err, jetstream.ErrStreamNotFound) {
			return errRecreated
		}
		return err
	}
	if err := t.compare(ctx, state); err != nil {
		return err
	}
	t.state, t.begun = state, true
	return nil
}

// subscribe makes the inbox of a new consumer, and its name. After a failed
// attempt both are kept: the server may have carried it out.
func (t *tape) subscribe() error {
	if t.sub != nil {
		return nil
	}
	inbox := t.api.nc.NewInbox()
	batch := batchReplay
	if t.spec.live {
		batch = 2 * batchLive
	}
	// Besides messages there is room for the words that end requests and for
	// the heartbeats of those that are open while the reader is busy elsewhere.
	t.msgs = make(chan *nats.Msg, batch+4*expiry)
	sub, err := t.api.nc.ChanSubscribe(inbox, t.msgs)
	if err != nil {
		return err
	}
	t.sub = sub
	t.consumer = "reader-" + inbox[strings.LastIndexByte(inbox, '.')+1:]
	t.consumed, t.asked, t.left, t.quiet, t.silent = 0, 0, 0, 0, 0
	t.unbounded, t.served = false, true
	return nil
}

// compare holds the log against what was read of it before.
func (t *tape) compare(ctx context.Context, state streamState) error {
	if t.begun && !state.created.Equal(t.state.created) {
		return errRecreated
	}
	t.floor = state.first
	if t.spec.strict && state.first > t.last+1 && t.last > 0 {
		return errFloor
	}
	if !t.begun {
		return nil
	}
	if state.last < t.last {
		return t.behind(state)
	}
	t.behindSince = time.Time{}
	if t.lastStored == 0 {
		return nil
	}
	// A server that came back with an older copy of its files gives the same
	// sequences out again. The time of storing is in nanoseconds, so it is not
	// the same twice.
	m, err := t.api.bySeq(ctx, t.spec.stream, t.last)
	switch {
	case errors.Is(err, errMissing):
		return nil // deleted since, which says nothing
	case err != nil:
		return err
	case m.time.UnixNano() != t.lastStored:
		return errRecreated
	}
	return nil
}

// behind: the stream ends before what was read of it, so it was rolled back;
// unless its leader has just been elected and is still applying what it has.
func (t *tape) behind(state streamState) error {
	if state.replicas <= 1 {
		return errRecreated
	}
	if t.behindSince.IsZero() {
		t.behindSince = time.Now()
	}
	if time.Since(t.behindSince) > grace {
		return errRecreated
	}
	return errors.New("the leader of the stream is behind")
}

// detach gives the consumer up. The request to delete it has no reply subject:
// nobody waits for the answer, and a server that does not get it deletes the
// consumer for inactivity.
func (t *tape) detach() {
	if t.sub == nil {
		return
	}
	err := errors.Join(
		t.sub.Unsubscribe(),
		t.api.nc.Publish(t.api.prefix+"CONSUMER.DELETE."+t.spec.stream+"."+t.consumer, nil),
	)
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		t.cfg.Log.Debug("leaving a consumer to the server's clean-up", slog.String("consumer", t.consumer), slog.Any("error", err))
	}
	t.sub, t.consumer = nil, ""
}
