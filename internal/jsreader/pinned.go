package jsreader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// PinnedConfig configures a Pinned.
type PinnedConfig struct {
	Stream      string
	Name        string // of the durable consumer; Pinned readers with the same name share the work
	Description string // of a consumer that is created
	Filter      string
	FromLatest  bool // a consumer that is created begins at the present end; otherwise at the start of the stream

	// Metadata is the metadata of the consumer. A missing key is added to the consumer. If a key has another value, the position of the consumer is not valid
	// for this reader: the consumer is deleted and created again, at the start of the stream.
	Metadata map[string]string

	Ahead           int           // deliveries without acknowledgement, at most
	Batch           int           // entries of one call of take, at most
	Request         int           // messages of one request, at most
	AckWait         time.Duration // until the server repeats a delivery without acknowledgement
	TakeoverTimeout time.Duration // without a request of the pinned client until the server serves another one

	// InOrderOnly ends Run with ErrConfigMismatch if the server is older than 2.14 and cannot reset a consumer. Otherwise, with such a server,
	// deliveries of the previous client are repeated after AckWait, between newer ones.
	InOrderOnly bool

	// Attach, if not nil, is called before each attempt to attach, with the timeout of one request. Its error ends Run.
	Attach func(ctx context.Context) error

	// Wake, if not nil, makes Run call take without entries when it fires.
	Wake <-chan time.Time

	OpenTimeout time.Duration // of the first attempts to attach; 0 is for as long as the context lasts
	Heartbeat   time.Duration // see OrderedConfig
	WarnAfter   time.Duration // see OrderedConfig
	OnReset     func()        // see OrderedConfig
	Log         *slog.Logger  // nil disables logging
}

// Pinned reads a durable consumer, whose acknowledgements the server stores. It is one of several clients, of which the server serves one at a time.
//
// Without a Pinned the server does not keep the order of the stream. If a program crashes, the server redelivers its unacknowledged messages only after
// AckWait, when it has already delivered newer messages to the next program; and if two programs pull from one consumer, each gets a part of the messages. So:
//   - The consumer is pinned: the server serves one client at a time.
//   - The client that becomes the pinned one resets the consumer to its ack floor, and drops earlier deliveries. After the reset deliveries are contiguous and
//     in order, and each has the next delivery number.
//   - A delivery number that is not the next one means that a delivery was lost or went to another client: the reader resets the consumer again.
//   - While take runs, the reader sends requests that get no message, because the server unpins a client some time after its last request.
//   - A pinned client that attaches again, for example after a reconnect, continues without a reset if all deliveries of the server have arrived.
//
// A reset discards the acknowledgements above the ack floor: if one message is unacknowledged, the server redelivers everything after it. The reader keeps its
// own acknowledgements, and repeats them without calling take; it does not have those of another process.
//
// So take gets every message of the filter from the ack floor on, in order. At the start of Run, after a reset, or after AckWait, it gets unacknowledged
// messages again.
//
// Acknowledgements are explicit, one for each message, although one for all before it is a quarter cheaper: a late one of the previous client would
// make the server ignore those of the next for as long as its numbers are higher.
type Pinned struct {
	pull

	cfg  PinnedConfig
	acks ackTracker

	begun  bool     // attached once
	last   position // everything up to here was delivered
	pinID  string   // "" while another client may be pinned
	active bool     // the pinned client, which got everything from the ack floor on
	start  uint64   // of the consumer, by its settings

	countable bool   // received is known
	received  uint64 // deliveries of the consumer that came before it was lost

	entries  []Entry                  // of the present call of take
	taking   atomic.Pointer[nats.Msg] // keeps the pin; nil while take does not run
	attached atomic.Uint64

	// resetConsumer resets the consumer to its ack floor and returns the next sequence. A test replaces it by that of an old server.
	resetConsumer func(ctx context.Context) (uint64, error)
}

// NewPinned returns a Pinned that is not attached yet.
func NewPinned(c *jsclient.Client, cfg PinnedConfig) *Pinned {
	p := &Pinned{
		pull: pull{
			client:    c,
			conn:      c.JetStream().Conn(),
			stream:    cfg.Stream,
			live:      true,
			batch:     cfg.Request,
			bytes:     maxBytes,
			expiry:    cfg.TakeoverTimeout / 2, // well before TakeoverTimeout: the next request keeps the pin
			heartbeat: cfg.Heartbeat,
			warnAfter: cfg.WarnAfter,
			log:       cfg.Log,
			wake:      cfg.Wake,
		},
		cfg: cfg,
	}
	p.resetConsumer = p.resetOnServer
	p.defaults()
	return p
}

// Attached returns how often the reader was attached: 1 if nothing failed. It may be called at any time.
func (p *Pinned) Attached() uint64 { return p.attached.Load() }

// Acknowledged returns the sequence up to which everything is acknowledged, as far as this reader knows. It may be called at any time.
func (p *Pinned) Acknowledged() uint64 { return p.acks.acknowledged() }

// Receipt acknowledges one delivery.
type Receipt struct {
	seq   uint64
	reply string
}

// Receipt returns the Receipt that acknowledges e; it does not keep the content of e.
func (e *Entry) Receipt() Receipt { return Receipt{seq: e.Seq, reply: e.reply} }

// Ack acknowledges deliveries, in any order and from any goroutine, also after Run has returned. A lost acknowledgement causes a redelivery; an acknowledgement
// after a reset, or by a previous client, acknowledges only its message. ErrRecreated: the deliveries are of a stream that was deleted, and an acknowledgement
// would acknowledge another message.
func (p *Pinned) Ack(receipts ...Receipt) error {
	if p.acks.isClosed() {
		return ErrRecreated
	}
	for _, r := range receipts {
		if err := p.conn.Publish(r.reply, nil); err != nil {
			return err
		}
		p.acks.acknowledge(r.seq)
	}
	return nil
}

// Run delivers until ctx ends, take or PinnedConfig.Attach fails, or reading is impossible, and returns that error: ErrRecreated, ErrConfigMismatch,
// or one of NATS. Calls of take come from one goroutine; the entries are valid until take returns. Run may be called again after it has returned, except after ErrRecreated.
func (p *Pinned) Run(ctx context.Context, take func(context.Context, []Entry) error) error {
	p.listen()
	defer p.close()
	ctx, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { p.keepPin(ctx) })
	defer keeper.Wait()
	defer stop()
	p.active = false // so that the server redelivers the unacknowledged deliveries of an earlier Run
	if err := p.reattach(ctx, p.cfg.OpenTimeout); err != nil {
		return err
	}
	for {
		batch, err := p.nextBatch(ctx)
		if len(batch) > 0 || errors.Is(err, errWake) {
			p.taking.Store(p.keepAlive())
			err := take(ctx, batch)
			p.taking.Store(nil)
			if err != nil {
				return err
			}
		}
		if errors.Is(err, ErrSilence) {
			err = p.resetOrphaned(ctx)
		}
		if err == nil || errors.Is(err, errWake) {
			continue
		}
		if err = p.recover(ctx, err); err != nil {
			return err
		}
	}
}

// keepAlive returns the request that keeps the pin, nil for a client that is not pinned. The server delivers no message for it, because each message is larger
// than a byte, and no client subscribes to its responses.
func (p *Pinned) keepAlive() *nats.Msg {
	if !p.active {
		return nil
	}
	return &nats.Msg{
		Subject: p.nextSubject(), Reply: p.conn.NewInbox(),
		Data: fmt.Appendf(nil, `{"batch":1,"max_bytes":1,"expires":%d%s}`, p.keepInterval(), p.pin),
	}
}

func (p *Pinned) keepInterval() time.Duration { return p.cfg.TakeoverTimeout / 3 }

// keepPin keeps the pin while take runs, until ctx ends.
func (p *Pinned) keepPin(ctx context.Context) {
	ticker := time.NewTicker(p.keepInterval())
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if request := p.taking.Load(); request != nil {
			if err := p.conn.PublishMsg(request); err != nil {
				p.log.Debug("pin not kept", slog.String("consumer", p.cfg.Name), slog.String("stream", p.stream), slog.Any("error", err))
			}
		}
	}
}

// nextBatch waits for an entry and returns it with those that have already arrived. Entries that arrived before an error are returned with it.
func (p *Pinned) nextBatch(ctx context.Context) ([]Entry, error) {
	e, err := p.next(ctx)
	if err != nil {
		return nil, err
	}
	if !p.active {
		return nil, p.takeOver(ctx, &e)
	}
	clear(p.entries)
	p.entries = p.entries[:0]
	for ok := true; ok; {
		if e.Seq > p.last.seq {
			p.last.move(&e)
		}
		if p.acks.deliver(e.Seq) {
			p.entries = append(p.entries, e)
		} else if err := p.Ack(e.Receipt()); err != nil {
			return p.entries, consumerLost(err.Error())
		}
		if len(p.entries) >= p.cfg.Batch {
			break
		}
		if e, ok, err = p.nextQueued(); err != nil {
			return p.entries, err
		}
	}
	if err := p.ask(); err != nil { // before take, so that the server works meanwhile and keeps the pin
		return p.entries, consumerLost(err.Error())
	}
	return p.entries, nil
}

// recover attaches again after the consumer or the pin was lost; other errors end Run.
func (p *Pinned) recover(ctx context.Context, err error) error {
	var lost *consumerLostError
	switch {
	case errors.As(err, &lost):
	case errors.Is(err, errNotPinned):
		p.pinID = ""
	default:
		return err
	}
	if p.cfg.OnReset != nil {
		p.cfg.OnReset()
	}
	p.log.Debug("consumer attached again", slog.String("consumer", p.cfg.Name), slog.String("stream", p.stream), slog.Any("reason", err))
	return p.reattach(ctx, 0)
}

func (p *Pinned) reattach(ctx context.Context, timeout time.Duration) error {
	p.received, p.countable = p.consumed, p.active && !p.uncounted
	p.active = false
	err := p.persist(ctx, timeout, p.attach, p.final)
	if errors.Is(err, ErrRecreated) {
		p.acks.close()
	}
	if refused, ok := errors.AsType[*attachError](err); ok {
		return refused.cause
	}
	return err
}

// final: a consumer that was deleted during an attempt is created by the next one.
func (p *Pinned) final(err error) bool {
	_, refused := errors.AsType[*attachError](err)
	return refused || errors.Is(err, ErrRecreated) || errors.Is(err, ErrConfigMismatch) || jsclient.Final(err) && !errors.Is(err, jetstream.ErrConsumerNotFound)
}

// attachError is an error of PinnedConfig.Attach.
type attachError struct{ cause error }

func (e *attachError) Error() string { return e.cause.Error() }

// attach finds or creates the consumer and listens on a new inbox. The client that was pinned before continues; the others wait.
func (p *Pinned) attach(ctx context.Context) error {
	if p.cfg.Attach != nil {
		if _, err := jsclient.Request(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.cfg.Attach(ctx) }); err != nil {
			return &attachError{err}
		}
	}
	if err := p.checkStream(ctx); err != nil {
		return err
	}
	info, err := p.ensure(ctx)
	if err != nil {
		return err
	}
	p.consumer = p.cfg.Name
	p.attached.Add(1)
	switch pinned := p.pinID != "" && len(info.PriorityGroups) > 0 && info.PriorityGroups[0].PinnedClientID == p.pinID; {
	case pinned && p.countable && info.Delivered.Consumer == p.received:
		return p.resume()
	case pinned:
		return p.activate(ctx)
	}
	return p.waitForPin()
}

// resume continues as the pinned client if all deliveries of the server have arrived. Messages that the server delivers to the old inbox before it gets the
// request for the new one are detected as missing deliveries.
func (p *Pinned) resume() error {
	if _, err := p.subscribe(); err != nil {
		return err
	}
	p.consumed, p.active = p.received, true
	return nil
}

func (p *Pinned) checkStream(ctx context.Context) error {
	state, err := p.streamState(ctx)
	if err != nil {
		if p.begun && errors.Is(err, jetstream.ErrStreamNotFound) {
			return ErrRecreated
		}
		return err
	}
	if !p.begun {
		p.last.created, p.begun = state.Created, true
	}
	if err := p.last.compare(ctx, p.client, p.stream, state); err != nil {
		return err
	}
	if acked := p.acks.acknowledged(); acked > 0 && state.First > acked+1 {
		p.log.Warn("unacknowledged records expired", slog.String("consumer", p.cfg.Name), slog.String("stream", p.stream),
			slog.Uint64("sequence", acked), slog.Uint64("firstSequence", state.First))
	}
	return nil
}

// ensure returns the consumer. A consumer that was deleted is created again at the last known position, and not at the start or the end of the
// stream.
func (p *Pinned) ensure(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := p.find(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		p.pinID = ""
		info, err = p.request(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
			return p.client.JetStream().CreateConsumer(ctx, p.stream, p.consumerConfig())
		})
		if errors.Is(err, jetstream.ErrConsumerExists) {
			// The old consumer is still being deleted, or another client has just created it: the next attempt checks again.
			return nil, fmt.Errorf("consumer %s of %s exists but was not found: %s", p.cfg.Name, p.stream, err.Error())
		}
		if err == nil {
			err = p.checkConfig(info.Config)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", p.cfg.Name, p.stream, err)
	}
	p.acks.raise(info.AckFloor.Stream)
	p.start = info.Config.OptStartSeq
	return info, nil
}

// request makes one request for the consumer.
func (p *Pinned) request(ctx context.Context, ask func(context.Context) (jetstream.Consumer, error)) (*jetstream.ConsumerInfo, error) {
	c, err := jsclient.Request(ctx, ask)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

func (p *Pinned) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	return p.request(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return p.client.JetStream().Consumer(ctx, p.stream, p.cfg.Name)
	})
}

// find returns the consumer if its position is valid for this reader, see PinnedConfig.Metadata.
func (p *Pinned) find(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := p.info(ctx)
	if err != nil {
		return nil, err
	}
	cfg := info.Config
	missing := false
	for key, want := range p.cfg.Metadata {
		have, ok := cfg.Metadata[key]
		if ok && have != want {
			p.log.Warn("consumer with another position deleted; reading from the start of the stream", slog.String("consumer", p.cfg.Name),
				slog.String("stream", p.stream), slog.String("metadata", have), slog.String("want", want))
			p.acks.clear()
			p.last.seq, p.last.stored = 0, time.Time{}
			if _, err := jsclient.Request(ctx, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, p.client.JetStream().DeleteConsumer(ctx, p.stream, p.cfg.Name)
			}); err != nil {
				return nil, err
			}
			return nil, jetstream.ErrConsumerNotFound
		}
		missing = missing || !ok
	}
	if err := p.checkConfig(cfg); err != nil || !missing {
		return info, err
	}
	metadata := maps.Clone(p.cfg.Metadata)
	maps.Copy(metadata, cfg.Metadata)
	cfg.Metadata = metadata
	return p.request(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return p.client.JetStream().UpdateConsumer(ctx, p.stream, cfg)
	})
}

func (p *Pinned) sameMetadata(cfg jetstream.ConsumerConfig) bool {
	for key, want := range p.cfg.Metadata {
		if cfg.Metadata[key] != want {
			return false
		}
	}
	return true
}

// waitForPin requests one message as one client of several. When the message arrives, this client is the pinned one.
func (p *Pinned) waitForPin() error {
	p.pinID, p.active = "", false
	p.pin = `,"group":"` + PinnedGroup + `"`
	p.waitingForPin, p.watchSilence, p.batch = true, true, 1
	_, err := p.subscribe()
	return err
}

// takeOver begins as the pinned client. The message that was delivered with the pin is dropped; it is redelivered after the reset.
func (p *Pinned) takeOver(ctx context.Context, e *Entry) error {
	p.pinID = e.Header.Get("Nats-Pin-Id")
	if p.pinID == "" {
		return fmt.Errorf("consumer %s of %s: %w: the server does not pin clients", p.cfg.Name, p.stream, ErrConfigMismatch)
	}
	err := p.client.Requests(context.WithoutCancel(ctx), p.activate)
	if err == nil || p.final(err) {
		return err
	}
	return consumerLost("not reset: " + err.Error())
}

// activate resets the consumer to its ack floor and pulls as the pinned client. It subscribes to the new inbox first, because the reset makes the server
// redeliver the messages that it delivered to the old inbox.
func (p *Pinned) activate(ctx context.Context) error {
	p.waitingForPin, p.watchSilence, p.batch = false, false, p.cfg.Request
	if _, err := p.subscribe(); err != nil {
		return err
	}
	next, err := p.resetConsumer(ctx)
	switch {
	case errors.Is(err, errResetUnsupported) && p.cfg.InOrderOnly:
		return fmt.Errorf("%w: %w", ErrConfigMismatch, err)
	case errors.Is(err, errResetUnsupported):
		p.uncounted = true
	case err != nil:
		return fmt.Errorf("reset consumer %s of %s: %w", p.cfg.Name, p.stream, err)
	}
	p.pin = `,"group":"` + PinnedGroup + `","id":"` + p.pinID + `"`
	if next > 0 { // another client may have read further
		p.acks.raise(next - 1)
	}
	p.acks.restart(!p.uncounted)
	if acked := p.acks.acknowledged(); acked > p.last.seq {
		p.last.seq, p.last.stored = acked, time.Time{}
	}
	p.active = true
	return nil
}

func (p *Pinned) resetOnServer(ctx context.Context) (uint64, error) {
	reset, err := jsclient.Request(ctx, func(ctx context.Context) (*jetstream.ConsumerResetResponse, error) {
		return p.client.JetStream().ResetConsumer(ctx, p.stream, p.cfg.Name)
	})
	if err == nil && reset.ResetSeq < p.start {
		// nats-server 2.15 may lose the start of a consumer that is created while one of the same name is being deleted. Its ack floor is 0 then.
		reset, err = jsclient.Request(ctx, func(ctx context.Context) (*jetstream.ConsumerResetResponse, error) {
			return p.client.JetStream().ResetConsumerToSequence(ctx, p.stream, p.cfg.Name, p.start)
		})
	}
	switch v := p.conn.ConnectedServerVersion(); {
	case errors.Is(err, nats.ErrNoResponders) && serverTooOld(v):
		return 0, fmt.Errorf("nats-server %s: %w", v, errResetUnsupported)
	case err != nil:
		return 0, err
	}
	return reset.ResetSeq, nil
}

// Release lets the next client begin at once, with the unacknowledged messages. Without Release the next client begins after TakeoverTimeout. Release must be
// called after Run has returned.
func (p *Pinned) Release(ctx context.Context) {
	if !p.active {
		return
	}
	p.active = false
	err := p.client.Requests(context.WithoutCancel(ctx), func(ctx context.Context) error {
		pinned, err := p.awaitAckFloor(ctx)
		if err != nil || !pinned {
			return err
		}
		if _, err := p.resetConsumer(ctx); err != nil && !errors.Is(err, errResetUnsupported) {
			return err
		}
		s, err := jsclient.Request(ctx, func(ctx context.Context) (jetstream.Stream, error) { return p.client.JetStream().Stream(ctx, p.stream) })
		if err != nil {
			return err
		}
		_, err = jsclient.Request(ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.UnpinConsumer(ctx, p.cfg.Name, PinnedGroup)
		})
		return err
	})
	if err != nil {
		p.log.Debug("consumer not released", slog.String("consumer", p.cfg.Name), slog.String("stream", p.stream), slog.Any("error", err))
	}
}

// ackFloorTimeout bounds awaitAckFloor: the server never counts an acknowledgement that it got after a reset and before the next delivery of the message.
const ackFloorTimeout = time.Second

// awaitAckFloor waits until the server has counted the acknowledgements of this client, and reports whether the client is still pinned. The server counts
// asynchronously; a reset before that would discard the acknowledgements, and the next client would get handled messages again.
func (p *Pinned) awaitAckFloor(ctx context.Context) (pinned bool, err error) {
	for began := time.Now(); ; {
		info, err := p.info(ctx)
		if err != nil {
			return false, err
		}
		if len(info.PriorityGroups) == 0 || info.PriorityGroups[0].PinnedClientID != p.pinID {
			return false, nil
		}
		if info.AckFloor.Stream >= p.acks.acknowledged() || time.Since(began) > ackFloorTimeout {
			return true, nil
		}
		if err := wait.Sleep(ctx, 5*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// errResetUnsupported reports a server that cannot reset a consumer.
var errResetUnsupported = errors.New("consumer reset not supported, want nats-server 2.14 or newer")

func serverTooOld(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < 2 || major == 2 && minor < 14
}

// resetOrphaned is for a client that waits for the pin:
//  1. the pinned client gets the maximum number of unacknowledged messages, or the last messages of the stream, and crashes,
//  2. the server unpins it, and waits for a message to deliver to another client,
//  3. there is no such message before AckWait is over.
func (p *Pinned) resetOrphaned(ctx context.Context) error {
	if p.active {
		return nil
	}
	err := p.client.Requests(ctx, func(ctx context.Context) error {
		info, err := p.info(ctx)
		if err != nil {
			return consumerLost("no information about the consumer")
		}
		if p.sameMetadata(info.Config) {
			p.acks.raise(info.AckFloor.Stream) // for the case that the consumer is deleted
		}
		if info.NumAckPending == 0 || len(info.PriorityGroups) == 0 || info.PriorityGroups[0].PinnedClientID != "" {
			return nil
		}
		if _, err := p.resetConsumer(ctx); err != nil && !errors.Is(err, errResetUnsupported) {
			return consumerLost("reset failed")
		}
		return nil
	})
	if err == nil || p.final(err) {
		return err
	}
	return consumerLost("not reset: " + err.Error()) // if the connection was lost meanwhile, Run attaches again after the reconnect
}
