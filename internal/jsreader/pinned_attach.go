package jsreader

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

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
	case pinned && p.countable && info.Delivered.Consumer == p.received && info.AckFloor.Stream >= p.acks.acknowledged():
		return p.resume()
	case pinned:
		return p.activate(ctx)
	}
	return p.waitForPin()
}

// resume continues as the pinned client if all deliveries of the server have arrived, and all acknowledgements at the server: one that was lost with the
// connection would be repeated only after AckWait. Messages that the server delivers to the old inbox before it gets the
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
	p.last.epoch = cmp.Or(p.last.epoch, state.Epoch)
	p.begun = true
	p.first = state.First
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
		cfg := p.consumerConfig()
		cfg.Metadata = map[string]string{createdBy: rand.Text()} // a consumer that another client has just created differs, and is not taken for this one
		maps.Copy(cfg.Metadata, p.cfg.Metadata)
		info, err = p.request(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
			return jsclient.Asked(p.client, "CONSUMER.CREATE."+p.stream, func() (jetstream.Consumer, error) {
				return p.client.JetStream().CreateConsumer(ctx, p.stream, cfg)
			})
		})
		if errors.Is(err, jetstream.ErrConsumerExists) {
			// The old consumer is still being deleted, or another client has just created it: the next attempt checks again.
			return nil, fmt.Errorf("consumer %s of %s exists but was not found: %s", p.cfg.Name, p.stream, err.Error())
		}
		if err == nil && p.hasOldState(info) {
			err = p.delete(ctx)
			if err == nil {
				err = errOldState
			}
		}
		if err == nil {
			err = p.checkConfig(info.Config)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", p.cfg.Name, p.stream, err)
	}
	p.acks.raise(info.AckFloor.Stream)
	p.start, p.createdBy = info.Config.OptStartSeq, info.Config.Metadata[createdBy]
	return info, nil
}

// createdBy is the metadata of a consumer with a random text of the client that created it.
const createdBy = "tailrace.created-by"

// errOldState reports a new consumer with the state of a deleted one of the same name. The next attempt creates another one.
var errOldState = errors.New("new consumer has the state of a deleted one")

// hasOldState reports whether a consumer that was just created has the state of a deleted one:
//  1. two clients find a consumer whose position is not valid for them,
//  2. the first one deletes it; nats-server 2.15 removes its name, and a moment later its files,
//  3. the second one creates a consumer in between, which reads the files of the old one.
//
// It would begin where the old one ended, and the records before that would never be delivered.
func (p *Pinned) hasOldState(info *jetstream.ConsumerInfo) bool {
	switch acked := info.AckFloor.Stream; {
	case info.Delivered.Consumer > 0 || info.AckFloor.Consumer > 0:
		return true
	case info.Config.OptStartSeq > 0:
		return acked >= max(info.Config.OptStartSeq, p.first)
	default:
		return info.Config.DeliverPolicy == jetstream.DeliverAllPolicy && p.first > 0 && acked >= p.first
	}
}

func (p *Pinned) delete(ctx context.Context) error {
	_, err := jsclient.Request(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.client.JetStream().DeleteConsumer(ctx, p.stream, p.cfg.Name)
	})
	return err
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

// infoOfAttached is info of the consumer to which the client was attached. Another one may have its name:
//  1. the client waits for the pin, and its request has just ended,
//  2. the stream is deleted and created again; the server tells the clients that have a request,
//  3. one of these creates the consumer of the new stream, which gets the next request of this client.
//
// The client would take what was acknowledged in the old stream for acknowledged in the new one.
func (p *Pinned) infoOfAttached(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := p.info(ctx)
	if err == nil && info.Config.Metadata[createdBy] != p.createdBy {
		err = consumerLost("another consumer has its name")
	}
	return info, err
}

// find returns the consumer if its position is valid for this reader, see PinnedConfig.Metadata.
func (p *Pinned) find(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := p.info(ctx)
	if err != nil {
		return nil, err
	}
	mismatch := p.checkConfig(info.Config)
	for key, want := range p.cfg.Metadata {
		have, ok := info.Config.Metadata[key]
		if have == want {
			continue
		}
		if !ok && mismatch != nil { // another program has created it
			break
		}
		p.log.Warn("consumer with another position deleted", slog.String("consumer", p.cfg.Name),
			slog.String("stream", p.stream), slog.String("metadata", have), slog.String("want", want))
		p.acks.clear()
		p.last.seq, p.last.stored = 0, time.Time{}
		if err := p.delete(ctx); err != nil {
			return nil, err
		}
		return nil, jetstream.ErrConsumerNotFound
	}
	return info, mismatch
}
