package jsreader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// ErrExpired reports that the stream no longer has messages that a strict reader did not deliver.
var ErrExpired = errors.New("unread messages expired")

// Latest is the value of OrderedConfig.After for the present end of the stream.
const Latest = math.MaxUint64

// OrderedConfig configures an Ordered.
type OrderedConfig struct {
	Stream      string
	Filter      string         // "" is everything
	After       uint64         // exclusive; Latest is the present end
	Epoch       string         // of the stream that After belongs to; empty accepts any
	Live        bool           // wait at the present end; otherwise ErrEnd
	Strict      bool           // ErrExpired if retention removes messages before they are delivered
	HeadersOnly bool           // without bodies
	Share       int            // number of readers that share the memory of one read; 0 is one
	Count       uint64         // messages of Filter at some time before Open; a reader that is not live requests a few without a consumer. 0 is unknown
	Counted     jsclient.State // of the stream, which is that of Epoch, when Count was read; zero is unknown
	OpenTimeout time.Duration  // of Open; 0 is for as long as the context lasts

	Heartbeat time.Duration // interval of the heartbeats of the server; defaults to 2 s
	WarnAfter time.Duration // an unsuccessful attempt to attach is logged after this time; defaults to 10 s
	OnReset   func()        // if not nil, called when a consumer is replaced
	Log       *slog.Logger  // nil disables logging
}

// Ordered delivers the messages of a stream in order, each once, also if connections, servers and consumers fail. It skips only messages that the stream
// itself no longer has.
//
// It is a pull loop on an ephemeral consumer. The ordered consumer of the library is similar; it is not used for these reasons:
//   - in a recreated stream it continues at the old sequence, and waits silently until the new stream has grown past it,
//   - after a lost connection it waits 1, 2, 4 … 10 seconds between its attempts, and this reader must resume within one,
//   - its consumer stays on the server after Stop, and the consumers of its resets are deleted by goroutines that cannot be waited for,
//   - it needs a second request to report that the present end is reached.
//
// An Ordered belongs to one goroutine and starts none.
type Ordered struct {
	pull

	cfg OrderedConfig

	state       jsclient.State // when last attached
	begun       bool           // attached once
	peeked      []Entry        // come next
	pending     bool           // there may be messages after peeked although there is no consumer
	last        position       // everything up to here was delivered
	orphaned    []string       // consumers that may still exist
	emptyResets int            // resets since the last message
	serverSkips int            // times that the server skipped messages since the last message
}

const (
	// BatchLive is how many messages a live reader requests at a time.
	BatchLive = 500

	// BatchReplay is how many messages another reader requests at a time.
	BatchReplay = 1000

	// maxRequested is how many messages are requested without a consumer, for which the server would scan the rest of the stream, and which it creates and
	// deletes. More of them would take more round trips than a consumer.
	maxRequested = 8

	// maxProbed is the same number if most of the messages of the filter are before the position: often nothing comes after it.
	maxProbed = 2

	// warnResets in a row without a message are logged as a warning.
	warnResets = 10

	// inactiveThreshold is the time after which the server deletes a consumer whose reader has crashed.
	inactiveThreshold = 30 * time.Second
)

// NewOrdered returns an Ordered that is not attached yet.
func NewOrdered(c *jsclient.Client, cfg OrderedConfig) *Ordered {
	batch := BatchReplay
	if cfg.Live {
		batch = BatchLive
	}
	share := max(1, cfg.Share)
	o := &Ordered{
		pull: pull{
			client:    c,
			conn:      c.JetStream().Conn(),
			stream:    cfg.Stream,
			live:      cfg.Live,
			batch:     batch / share,
			bytes:     maxBytes / share,
			heartbeat: cfg.Heartbeat,
			warnAfter: cfg.WarnAfter,
			log:       cfg.Log,
		},
		cfg:  cfg,
		last: position{epoch: cfg.Epoch, seq: cfg.After},
	}
	o.defaults()
	o.expiry = expiryBeats * o.heartbeat
	return o
}

// Last returns the sequence up to which everything was delivered.
func (o *Ordered) Last() uint64 { return o.last.seq }

// State returns the state of the stream when the reader was last attached.
func (o *Ordered) State() jsclient.State { return o.state }

// Remaining returns the number of messages up to the present end that are not delivered yet, by the count of the server. It is for a reader that is not live.
func (o *Ordered) Remaining() uint64 {
	n := o.remaining + uint64(len(o.peeked))
	if o.pending {
		n++
	}
	return n
}

// WatchSilence makes Next return ErrSilence after some time without a message.
func (o *Ordered) WatchSilence(on bool) { o.watchSilence = on }

// Resume declares that the caller has read the stream of OrderedConfig.Epoch up to Last: Open then fails with ErrRecreated if the stream is another
// one or was rolled back. It is for a reader that is not open.
func (o *Ordered) Resume() { o.begun = true }

// Open attaches the reader for the first time. The reader must be closed even if Open fails.
func (o *Ordered) Open(ctx context.Context) error {
	o.listen()
	if n := o.requested(); n > 0 {
		return o.persist(ctx, o.cfg.OpenTimeout, func(ctx context.Context) error { return o.request(ctx, n) }, o.final)
	}
	return o.reattach(ctx, o.cfg.OpenTimeout)
}

// requested returns how many messages to request before a consumer is created.
func (o *Ordered) requested() int {
	share := max(1, o.cfg.Share)
	switch {
	case o.live || o.cfg.Strict || o.cfg.HeadersOnly || o.cfg.Count == 0:
		return 0
	case o.cfg.Count < uint64(maxRequested/share):
		return int(o.cfg.Count) + 1 // the last request finds the end, because the count may be wrong
	case o.cfg.After > 0:
		return maxProbed
	}
	return 0
}

// request opens the reader with the next messages of the leader, at most n. The stream is the expected one before and after them, so they are of it. Next
// creates a consumer if there may be more.
func (o *Ordered) request(ctx context.Context, n int) (err error) {
	state := o.cfg.Counted
	if state.Epoch == "" {
		if state, err = o.expectedState(ctx); err != nil {
			return err
		}
	}
	var got []Entry
	from, size, pending := o.Last()+1, 0, true
	for range n {
		m, err := jsclient.Request(ctx, func(ctx context.Context) (jsclient.Message, error) {
			return o.client.Next(ctx, o.stream, o.cfg.Filter, from)
		})
		if errors.Is(err, jsclient.ErrNotFound) {
			pending = false
			break
		}
		if err != nil {
			return err
		}
		got, from = append(got, Entry{Message: m, Deliveries: 1}), m.Seq+1
		if size += len(m.Data); size >= o.bytes {
			break
		}
	}
	if _, err := o.expectedState(ctx); err != nil {
		return err
	}
	o.peeked, o.pending = got, pending
	for i := range got {
		got[i].Pending = o.Remaining() - uint64(i) - 1
	}
	o.state, o.begun = state, true
	return nil
}

// Close releases the subscription and deletes the consumer on the server.
func (o *Ordered) Close() {
	o.unsubscribe()
	if o.consumer != "" {
		o.deleteConsumer(o.consumer)
		o.consumer = ""
	}
	o.deleteOrphaned()
	o.close()
}

// Prefetch sends the first request, so that the server works while the caller does something else.
func (o *Ordered) Prefetch(ctx context.Context) error {
	if err := o.ask(); err != nil {
		return o.reset(ctx, err.Error())
	}
	return nil
}

// Next blocks until the next message. The error is ErrEnd, ErrSilence, ErrRecreated, ErrExpired, that of ctx, or a permanent one of NATS.
func (o *Ordered) Next(ctx context.Context) (Entry, error) {
	if len(o.peeked) > 0 {
		e := o.peeked[0]
		o.peeked = o.peeked[1:]
		o.last.move(&e)
		return e, nil
	}
	if o.pending {
		o.pending = false
		if err := o.reattach(ctx, 0); err != nil {
			return Entry{}, err
		}
	}
	for {
		e, err := o.next(ctx)
		if err == nil && e.Seq <= o.Last() {
			continue
		}
		if err == nil {
			err = o.checkSkipped(ctx, &e)
		}
		if err == nil {
			o.last.move(&e)
			o.emptyResets, o.serverSkips = 0, 0
			return e, nil
		}
		lost, ok := errors.AsType[*consumerLostError](err)
		if !ok {
			return Entry{}, err
		}
		if err := o.reset(ctx, lost.reason); err != nil {
			return Entry{}, err
		}
	}
}

// Beyond returns the next message of the leader after Last, or jsclient.ErrNotFound.
func (o *Ordered) Beyond(ctx context.Context) (jsclient.Message, error) {
	return o.nextStored(ctx, o.cfg.Filter)
}

func (o *Ordered) nextStored(ctx context.Context, filter string) (jsclient.Message, error) {
	return jsclient.Retry(ctx, o.client.Reading(0), func(ctx context.Context) (jsclient.Message, error) {
		return o.client.Next(ctx, o.stream, filter, o.Last()+1)
	})
}

// ConfirmEnd returns ErrEnd unless the leader has a message up to a bound that was not delivered. Such a message exists if the consumer reads a replica that
// lags, or if the consumer reported the end before it had delivered as many messages as it had counted. Usually the missing messages were deleted; but the
// count may also be wrong, and a wrong count must not end a read without an error. nil: call Next again.
//
// Two properties make every read end. The request to the leader is for the next message and not for the last one: the last message of a subject is taken from
// an index, which may keep messages that were purged long ago. And the reader delivers the message that the leader returned, so that the reader advances even
// if no consumer ever delivers that message.
func (o *Ordered) ConfirmEnd(ctx context.Context, bound uint64) error {
	if o.state.Replicas <= 1 && !o.rejected {
		return ErrEnd
	}
	m, err := o.Beyond(ctx)
	switch {
	case errors.Is(err, jsclient.ErrNotFound):
		return ErrEnd
	case err != nil:
		return err
	case m.Seq > bound:
		return ErrEnd
	}
	if err := wait.Sleep(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	// m, which the consumer did not deliver, is the next message, and the reader attaches again after it.
	o.peeked = []Entry{{Message: m, Pending: 1, Deliveries: 1}}
	o.last.move(&o.peeked[0])
	return o.reset(ctx, "the leader has more")
}

// NextThrough is Next for a reader that is not live and reads up to a bound: ErrEnd is confirmed, see ConfirmEnd. It may also return messages after the bound.
func (o *Ordered) NextThrough(ctx context.Context, bound uint64) (Entry, error) {
	for {
		e, err := o.Next(ctx)
		if !errors.Is(err, ErrEnd) {
			return e, err
		}
		if err := o.ConfirmEnd(ctx, bound); err != nil {
			return Entry{}, err
		}
	}
}

// All opens the reader, yields its messages, and closes it. A reader that is not live ends at the end that the stream had when the reader was opened, confirmed as by
// NextThrough, or a little later. At most one error comes, last; the end is none.
func (o *Ordered) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		defer o.Close()
		err := o.Open(ctx)
		for end := o.state.Last; err == nil; {
			var e Entry
			if o.live {
				e, err = o.Next(ctx)
			} else {
				e, err = o.NextThrough(ctx, end)
			}
			if err == nil && !yield(e, nil) {
				return
			}
		}
		if !errors.Is(err, ErrEnd) {
			yield(Entry{}, err)
		}
	}
}

// reset replaces the consumer by one that begins after the last message that was delivered.
func (o *Ordered) reset(ctx context.Context, reason string) error {
	if o.cfg.OnReset != nil {
		o.cfg.OnReset()
	}
	level := slog.LevelDebug
	if o.emptyResets++; o.emptyResets%warnResets == 0 { // attached, but without messages: possibly a missing permission
		level = slog.LevelWarn
	}
	o.log.Log(ctx, level, "consumer replaced", slog.String("stream", o.stream),
		slog.Uint64("after", o.Last()), slog.String("reason", reason), slog.Int("resets", o.emptyResets))
	return o.reattach(ctx, 0)
}

// reattach tries until it succeeds, fails for good or timeout is over; a timeout of 0 is for as long as ctx lasts.
func (o *Ordered) reattach(ctx context.Context, timeout time.Duration) error {
	o.detach()
	return o.persist(ctx, timeout, o.attach, o.final)
}

// final: once begun, the limit of consumers is temporary (the old consumer of this reader may count).
func (o *Ordered) final(err error) bool {
	if errors.Is(err, ErrRecreated) || errors.Is(err, ErrExpired) {
		return true
	}
	if o.begun && errors.Is(err, jetstream.ErrMaximumConsumersLimit) {
		return false
	}
	return jsclient.Final(err)
}

// attach creates a consumer and checks that it reads the same stream as before.
func (o *Ordered) attach(ctx context.Context) error {
	if o.cfg.After == Latest {
		state, err := o.streamState(ctx)
		if err != nil {
			return err
		}
		o.last.seq, o.cfg.After = state.Last, state.Last
	}
	// Each attempt uses a new name. A cluster may assign a consumer to a server that has just crashed. Then a second request with the same name has no
	// effect and gets no response until that server is available again.
	o.detach()
	name, err := o.subscribe()
	if err != nil {
		return err
	}
	o.consumer = "reader-" + name
	c, err := jsclient.Request(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return jsclient.Asked(o.client, "CONSUMER.CREATE."+o.stream, func() (jetstream.Consumer, error) {
			return o.client.JetStream().CreateConsumer(ctx, o.stream, jetstream.ConsumerConfig{
				Name:              o.consumer,
				FilterSubject:     o.cfg.Filter,
				DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
				OptStartSeq:       o.Last() + 1,
				AckPolicy:         jetstream.AckNonePolicy,
				InactiveThreshold: inactiveThreshold,
				MemoryStorage:     true,
				Replicas:          1,
				HeadersOnly:       o.cfg.HeadersOnly,
			})
		})
	})
	if err != nil {
		return o.errIfDeleted(fmt.Errorf("read %s: %w", o.stream, err))
	}
	// In this order: a consumer is deleted with its stream, so everything that it delivers from now on belongs to the stream whose state is read here.
	state, err := o.expectedState(ctx)
	if err != nil {
		return err
	}
	o.remaining = c.CachedInfo().NumPending
	o.state, o.begun = state, true
	o.deleteOrphaned()
	return nil
}

// expectedState returns the state of the stream, which is the one that was read before.
func (o *Ordered) expectedState(ctx context.Context) (jsclient.State, error) {
	state, err := o.streamState(ctx)
	if err == nil {
		return state, o.compare(ctx, state)
	}
	return state, o.errIfDeleted(err)
}

// errIfDeleted returns ErrRecreated if a stream that was read before is missing.
func (o *Ordered) errIfDeleted(err error) error {
	if o.begun && errors.Is(err, jetstream.ErrStreamNotFound) {
		return ErrRecreated
	}
	return err
}

// compare checks that the stream is the one that was read before.
func (o *Ordered) compare(ctx context.Context, state jsclient.State) error {
	if o.last.epoch != "" && state.Epoch != o.last.epoch {
		return ErrRecreated
	}
	if o.cfg.Strict && state.First > o.Last()+1 && o.Last() > 0 {
		o.state = state
		return ErrExpired
	}
	if !o.begun {
		o.last.epoch = state.Epoch
		return nil
	}
	return o.last.compare(ctx, o.client, o.stream, state)
}

// detach deletes the consumer. The request is lost if there is no leader, and has no effect while the server is still creating the consumer; so the name is
// kept for a second attempt.
func (o *Ordered) detach() {
	o.unsubscribe()
	if o.consumer == "" {
		return
	}
	o.deleteConsumer(o.consumer)
	const maxOrphaned = 64
	if len(o.orphaned) < maxOrphaned {
		o.orphaned = append(o.orphaned, o.consumer)
	}
	o.consumer = ""
}

// deleteOrphaned is that second attempt, after a response of the server.
func (o *Ordered) deleteOrphaned() {
	for _, name := range o.orphaned {
		o.deleteConsumer(name)
	}
	o.orphaned = nil
}

// deleteConsumer sends a request without a reply subject: the response is not needed, and a server that does not get the request deletes the
// consumer for inactivity.
func (o *Ordered) deleteConsumer(name string) {
	err := o.conn.Publish(o.client.APISubject("CONSUMER.DELETE.")+o.stream+"."+name, nil)
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		o.log.Debug("consumer not deleted", slog.String("consumer", name), slog.Any("error", err))
	}
}
