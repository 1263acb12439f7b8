package jsreader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// waitForPin requests one message as one client of several. When the message arrives, this client is the pinned one.
func (p *Pinned) waitForPin() error {
	p.pinID, p.active = "", false
	p.waitingSince = time.Now()
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
	info, err := p.infoOfAttached(ctx)
	if err != nil {
		return err
	}
	p.acks.raise(info.AckFloor.Stream) // another client may have read further
	p.ackFloorBefore = p.acks.acknowledged()
	if cfg, differ := p.adjusted(info.Config); differ {
		if _, err := p.request(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
			return p.client.JetStream().UpdateConsumer(ctx, p.stream, cfg)
		}); err != nil {
			return fmt.Errorf("update consumer %s of %s: %w", p.cfg.Name, p.stream, err)
		}
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
	if next > 0 {
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

// errResetUnsupported reports a server that cannot reset a consumer.
var errResetUnsupported = errors.New("consumer reset not supported, want nats-server 2.14 or newer")

func serverTooOld(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < 2 || major == 2 && minor < 14
}

// reportWaitAfter is the time after which PinnedConfig.OnWait is called: longer than a takeover.
const reportWaitAfter = 2 * time.Second

// resetOrphaned is for a client that waits for the pin:
//  1. the pinned client gets the maximum number of unacknowledged messages, or the last messages of the stream, and crashes,
//  2. the server unpins it, and waits for a message to deliver to another client,
//  3. there is no such message before AckWait is over.
func (p *Pinned) resetOrphaned(ctx context.Context) error {
	if p.active {
		return nil
	}
	err := p.client.Requests(ctx, func(ctx context.Context) error {
		info, err := p.infoOfAttached(ctx)
		if err != nil {
			return consumerLost("no information about the consumer")
		}
		p.acks.raise(info.AckFloor.Stream) // for the case that the consumer is deleted
		if pinned := len(info.PriorityGroups) == 0 || info.PriorityGroups[0].PinnedClientID != ""; pinned || info.NumAckPending == 0 {
			if pinned && p.cfg.OnWait != nil && time.Since(p.waitingSince) >= reportWaitAfter {
				p.cfg.OnWait()
			}
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
