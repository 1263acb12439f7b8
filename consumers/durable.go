package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
)

// durable is the loop of one partition of a durable firehose.
//
// The server alone does not keep the order of a session. Unacknowledged
// messages of a program that died come back when AckWait is over, long after
// newer ones were delivered to its successor; and two programs that pull from
// one consumer get every other message. So:
//   - The consumer is pinned: the server serves one client at a time.
//   - Whoever becomes that client sets the consumer back to its ack floor, and
//     drops what it got until then. From there on deliveries are contiguous and
//     in order, and each has the next delivery number.
//   - A delivery number that is not the next one means that something was lost
//     or went to somebody else: begin again at the ack floor.
//   - What was handled already is acknowledged and not handled twice.
//
// Acknowledgements are explicit, one for each message, although one for all
// before it is a quarter cheaper: a late one of the last owner would make the
// server ignore those of the next for as long as its numbers are higher.
type durable struct {
	pull

	hose   *hose
	filter string

	begun  bool        // attached once
	mark   bookmark    // everything up to here is handled
	pinID  string      // "" while standing by
	active bool        // set back to the ack floor as the pinned client
	floor  chunk.Seq   // everything up to here is acknowledged
	owed   []string    // reply subjects of what is handled and not acknowledged
	since  time.Time   // of the first of them
	timer  *time.Timer // runs from then on
}

func (d *durable) run(ctx context.Context) error {
	if err := d.reattach(ctx, d.cfg.Patience); err != nil {
		return err
	}
	d.timer = time.NewTimer(d.hose.cfg.CommitAfter)
	defer d.timer.Stop()
	for {
		if err := d.settleIfDue(ctx); err != nil {
			return err
		}
		e, err := d.next(ctx)
		switch {
		case errors.Is(err, errAlarm):
			continue
		case errors.Is(err, errSilence):
			err = d.lookForOrphans(ctx)
		case err == nil && !d.active:
			err = d.takeOver(ctx, &e)
		case err == nil:
			err = d.process(ctx, &e)
		}
		if err == nil {
			continue
		}
		if err = d.recover(ctx, err); err != nil {
			return err
		}
	}
}

// process hands a message over. Those that were handled before come again when
// their acknowledgement was lost or late.
func (d *durable) process(ctx context.Context, e *entry) error {
	if e.seq > d.mark.seq {
		if err := d.hose.deliver(ctx, e); err != nil {
			return err
		}
		d.mark.move(e)
	}
	if len(d.owed) == 0 {
		d.since = time.Now()
		d.timer.Reset(d.hose.cfg.CommitAfter)
		d.alarm = d.timer.C
	}
	d.owed = append(d.owed, e.reply)
	return nil
}

// settleIfDue acknowledges when enough was handled, when something has waited
// for long enough, or when there is nothing else to do. The alarm is for the
// second case while nothing comes.
func (d *durable) settleIfDue(ctx context.Context) error {
	switch {
	case len(d.owed) == 0:
		return nil
	case len(d.owed) >= d.hose.cfg.CommitEvery,
		d.hose.cfg.Commit == nil && d.idle(),
		time.Since(d.since) >= d.hose.cfg.CommitAfter:
		return d.settle(ctx)
	}
	return nil
}

// settle commits and acknowledges what was handled. An acknowledgement that
// gets lost costs a second delivery, which process recognises.
func (d *durable) settle(ctx context.Context) error {
	if err := d.commit(ctx); err != nil {
		return err
	}
	for _, reply := range d.owed {
		if err := d.api.nc.Publish(reply, nil); err != nil {
			return err
		}
	}
	d.owed, d.floor = d.owed[:0], d.mark.seq
	d.alarm = nil
	return nil
}

// commit asks the sink to keep what was handled. What it refuses stays
// unacknowledged.
func (d *durable) commit(ctx context.Context) error {
	if d.hose.cfg.Commit == nil || len(d.owed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.hose.cfg.AckWait/2)
	defer cancel()
	if err := d.hose.cfg.Commit(ctx); err != nil {
		d.owed = nil
		return &commitError{stream: d.stream, cause: err}
	}
	return nil
}

// commitError: the sink could not keep what was handled.
type commitError struct {
	stream string
	cause  error
}

func (e *commitError) Error() string {
	return fmt.Sprintf("commit records of %s: %v", e.stream, e.cause)
}
func (e *commitError) Unwrap() error { return e.cause }

// recover replaces what was lost; other errors end the loop.
func (d *durable) recover(ctx context.Context, err error) error {
	var gone *lostError
	switch {
	case errors.As(err, &gone):
	case errors.Is(err, errUnpinned):
		d.pinID = ""
	default:
		return err
	}
	d.hose.reader.resets.Add(1)
	d.cfg.Log.Debug("attaching anew", slog.String("firehose", d.hose.cfg.Name), slog.String("stream", d.stream), slog.Any("reason", err))
	return d.reattach(ctx, 0)
}

func (d *durable) reattach(ctx context.Context, patience time.Duration) error {
	err := d.persist(ctx, patience, d.attach, func(err error) bool {
		return errors.Is(err, errRecreated) || errors.Is(err, jsapi.ErrOtherSettings) || final(err)
	})
	if errors.Is(err, errRecreated) {
		return &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: d.mark.seq}
	}
	return err
}

// attach finds or makes the consumer and listens on a new inbox. The client
// that was pinned before goes on from the ack floor; the others stand by.
func (d *durable) attach(ctx context.Context) error {
	if err := d.checkStream(ctx); err != nil {
		return err
	}
	info, err := d.ensure(ctx)
	if err != nil {
		return err
	}
	d.consumer = d.hose.cfg.Name
	d.active = false
	if d.pinID != "" && len(info.PriorityGroups) > 0 && info.PriorityGroups[0].PinnedClientID == d.pinID {
		return d.activate(ctx)
	}
	return d.standBy()
}

func (d *durable) checkStream(ctx context.Context) error {
	state, err := d.api.state(ctx, d.stream)
	if err != nil {
		if d.begun && errors.Is(err, jetstream.ErrStreamNotFound) {
			return errRecreated
		}
		return err
	}
	if !d.begun {
		d.mark.created, d.begun = state.created, true
	}
	if err := d.mark.compare(ctx, d.api, d.stream, state); err != nil {
		return err
	}
	if d.floor > 0 && state.first > d.floor+1 {
		d.cfg.Log.Warn("retention has overtaken a firehose",
			slog.String("firehose", d.hose.cfg.Name), slog.String("stream", d.stream),
			slog.Uint64("after", uint64(d.floor)), slog.Uint64("first", uint64(state.first)))
	}
	return nil
}

// ensure gives the consumer. One that was deleted is made again where we were,
// and not at the beginning or the end of the stream.
func (d *durable) ensure(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	want := d.want()
	c, err := d.api.js.Consumer(ctx, d.stream, d.hose.cfg.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		d.pinID = ""
		c, err = d.api.js.CreateConsumer(ctx, d.stream, want.Config())
		if errors.Is(err, jetstream.ErrConsumerExists) {
			// The old one is on its way out, or another client was faster.
			return nil, fmt.Errorf("firehose %s of %s is there and is not: %s", d.hose.cfg.Name, d.stream, err.Error())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("firehose %s of %s: %w", d.hose.cfg.Name, d.stream, err)
	}
	info := c.CachedInfo()
	if err := want.Check(info.Config); err != nil {
		return nil, fmt.Errorf("firehose %s of %s: %w", d.hose.cfg.Name, d.stream, err)
	}
	if floor := chunk.Seq(info.AckFloor.Stream); floor > d.floor {
		d.floor = floor
	}
	return info, nil
}

func (d *durable) want() jsapi.Pinned {
	want := jsapi.Pinned{
		Name: d.hose.cfg.Name, Description: "tailrace firehose", Filter: d.filter, FromNow: d.hose.cfg.FromNow,
		Ahead: d.hose.cfg.Batch, AckWait: d.hose.cfg.AckWait, Takeover: d.hose.cfg.Takeover,
	}
	if max(d.floor, d.mark.seq) > 0 {
		want.From = uint64(d.floor) + 1
	}
	return want
}

// standBy asks for one message as one client of many. When it comes, it says
// that we are the one now.
func (d *durable) standBy() error {
	d.pinID, d.active = "", false
	d.pin = `,"group":"` + jsapi.PinnedGroup + `"`
	d.standby, d.watchSilence, d.batch = true, true, 1
	_, err := d.enter()
	return err
}

// takeOver begins as the pinned client. The message that told us is dropped;
// it comes again.
func (d *durable) takeOver(ctx context.Context, e *entry) error {
	d.pinID = e.header.Get("Nats-Pin-Id")
	if d.pinID == "" {
		return fmt.Errorf("firehose %s of %s: %w: the server does not pin clients", d.hose.cfg.Name, d.stream, jsapi.ErrOtherSettings)
	}
	err := d.api.attempt(context.WithoutCancel(ctx), d.activate)
	if err == nil || final(err) || errors.Is(err, jsapi.ErrOtherSettings) {
		return err
	}
	return lost("it could not be set back: " + err.Error())
}

// activate sets the consumer back to its ack floor and pulls as the pinned
// client. The new inbox comes first: a delivery to the old one is undone by
// the setting back.
func (d *durable) activate(ctx context.Context) error {
	d.standby, d.watchSilence, d.batch = false, false, d.hose.cfg.Batch
	if _, err := d.enter(); err != nil {
		return err
	}
	back, err := d.api.js.ResetConsumer(ctx, d.stream, d.hose.cfg.Name)
	if v := d.api.nc.ConnectedServerVersion(); errors.Is(err, nats.ErrNoResponders) && tooOld(v) {
		return fmt.Errorf("%w: nats-server %s cannot set it back, 2.14 or newer can", jsapi.ErrOtherSettings, v)
	}
	if err != nil {
		return fmt.Errorf("set firehose %s of %s back: %w", d.hose.cfg.Name, d.stream, err)
	}
	d.pin = `,"group":"` + jsapi.PinnedGroup + `","id":"` + d.pinID + `"`
	if back.ResetSeq > 0 { // another client may have come further than we had
		d.floor = max(d.floor, chunk.Seq(back.ResetSeq)-1)
		if d.floor > d.mark.seq {
			d.mark.seq, d.mark.stored = d.floor, 0
		}
	}
	d.active, d.owed = true, d.owed[:0]
	return nil
}

// release lets the next client begin at once and with everything that is not
// acknowledged. Without it both happens too, after Takeover and AckWait.
func (d *durable) release(ctx context.Context) {
	if !d.active {
		return
	}
	d.leave()
	err := d.api.attempt(context.WithoutCancel(ctx), func(ctx context.Context) error {
		if err := d.awaitCounted(ctx); err != nil {
			return err
		}
		if _, err := d.api.js.ResetConsumer(ctx, d.stream, d.hose.cfg.Name); err != nil {
			return err
		}
		s, err := d.api.js.Stream(ctx, d.stream)
		if err != nil {
			return err
		}
		return s.UnpinConsumer(ctx, d.hose.cfg.Name, jsapi.PinnedGroup)
	})
	if err != nil {
		d.cfg.Log.Debug("leaving a firehose to the server's timeouts", slog.String("firehose", d.hose.cfg.Name), slog.Any("error", err))
	}
}

// awaitCounted waits until the server has counted our acknowledgements. It does
// so in its own time, the request to set the consumer back would overtake them,
// and the next client would get handled records once more.
func (d *durable) awaitCounted(ctx context.Context) error {
	for {
		c, err := d.api.js.Consumer(ctx, d.stream, d.hose.cfg.Name)
		if err != nil {
			return err
		}
		if chunk.Seq(c.CachedInfo().AckFloor.Stream) >= d.floor {
			return nil
		}
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func tooOld(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < 2 || major == 2 && minor < 14
}

// lookForOrphans is for the client that stands by and hears nothing. When the
// last owner died with as many messages as it may have, the server gives
// nothing to anybody before AckWait is over.
func (d *durable) lookForOrphans(ctx context.Context) error {
	if d.active {
		return nil
	}
	return d.api.attempt(ctx, func(ctx context.Context) error {
		c, err := d.api.js.Consumer(ctx, d.stream, d.hose.cfg.Name)
		if err != nil {
			return lost("no word about the consumer")
		}
		info := c.CachedInfo()
		if info.NumAckPending == 0 || len(info.PriorityGroups) == 0 || info.PriorityGroups[0].PinnedClientID != "" {
			return nil
		}
		if _, err := d.api.js.ResetConsumer(ctx, d.stream, d.hose.cfg.Name); err != nil {
			return lost("setting back failed")
		}
		return nil
	})
}
