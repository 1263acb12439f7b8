package jsreader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/jsclient"
)

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

	begun          bool     // attached once
	last           position // everything up to here was delivered
	pinID          string   // "" while another client may be pinned
	waitingSince   time.Time
	active         bool   // the pinned client, which got everything from the ack floor on
	first          uint64 // sequence of the stream, when the client attached
	start          uint64 // of the consumer, by its settings
	createdBy      string // of the consumer, by its metadata
	ackFloorBefore uint64 // see AckFloorBefore

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
		cfg:  cfg,
		last: position{epoch: cfg.Epoch},
	}
	p.resetConsumer = p.resetOnServer
	p.defaults()
	return p
}

// Attached returns how often the reader was attached: 1 if nothing failed. It may be called at any time.
func (p *Pinned) Attached() uint64 { return p.attached.Load() }

// AckFloorBefore returns the ack floor of the consumer as it was before the server reset it for this client, 0 if nothing was acknowledged. The reset may move
// the ack floor past messages that have expired. It belongs to the goroutine that calls take.
func (p *Pinned) AckFloorBefore() uint64 { return p.ackFloorBefore }

// Run delivers until ctx ends, take or PinnedConfig.Attach fails, or reading is impossible, and returns that error: ErrRecreated, ErrConfigMismatch, or one of
// NATS. Calls of take come from one goroutine; the entries are valid until take returns. Run may be called again after it has returned, except after
// ErrRecreated.
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
	switch _, lost := errors.AsType[*consumerLostError](err); {
	case lost:
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
