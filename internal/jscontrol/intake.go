package jscontrol

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
)

const (
	// maxWaiting and maxWaitingBytes limit the commands of one agent type that a process fetches before they can start. A tenant whose first command is behind
	// more commands than all workers hold waits until some of them have started.
	maxWaiting      = 16384
	maxWaitingBytes = 32 << 20

	minSweepBatch = 16                     // commands of one fetch
	maxSweepBatch = 512                    // if they are small
	sweepBytes    = 8 << 20                // expected size of one fetch
	sweepInterval = 100 * time.Millisecond // between two fetches of everything that is on the server
	offerInterval = 250 * time.Millisecond // between two checks whether other workers need commands
	infoTimeout   = 500 * time.Millisecond // of such a check
	infoPause     = 5 * time.Second        // after one that failed: without the permission each of them takes infoTimeout, and no command starts meanwhile
	maxOffer      = 64                     // commands that are returned because no slot became free

	// returnBatch is how many commands are returned at once; the next ones follow returnInterval later. Redeliveries precede all other messages, and new
	// commands of other tenants would wait for all of them.
	returnBatch    = 1000
	returnInterval = 100 * time.Millisecond
)

// intake fetches the commands of one source and starts them.
//
// The consumer delivers in the order of the stream, so the only way to the first command of a tenant is past the commands of other tenants that were stored
// before it. While all slots of a process are in use it fetches nothing. When one becomes free, it fetches everything that is on the server, starts what is
// next in turn, and keeps the rest in progress, without starting it: later commands are then first on the server. The rest starts when slots become free, or
// is returned to the server: half of it when a worker waits for commands, the next ones when no slot becomes free, and everything when the process stops. If
// the process dies, it is redelivered after AckWait like the commands that run.
type intake struct {
	*server

	from    source
	slots   chan struct{}
	waiting *fairQueue

	present  *incarnation
	consumer jetstream.Consumer

	swept     time.Time // no fetch of everything before sweepInterval after it
	offered   time.Time // last check whether other workers need commands
	renewed   time.Time // last renewal of the commands that wait
	saturated time.Time // since when there is no free slot; zero if there is one
}

func (s *server) newIntake(from source) *intake {
	return &intake{server: s, from: from, slots: make(chan struct{}, s.cfg.Concurrency), waiting: newFairQueue()}
}

// open gets the consumer.
func (in *intake) open(ctx context.Context) error {
	consumer, epoch, err := in.server.consumer(ctx, in.from)
	if err != nil {
		return err
	}
	in.consumer = consumer
	if next := in.present.next(epoch); next != in.present {
		in.present = next
		in.waiting.drop(func(*fetched) bool { return true }) // sequences of a stream that was deleted
	}
	return nil
}

// pull fetches and starts commands until ctx ends (nil) or a request fails.
func (in *intake) pull(ctx context.Context) error {
	if err := in.open(ctx); err != nil {
		return err
	}
	for {
		wasFull, err := in.awaitSlot(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
		n, _ := in.waiting.size()
		switch {
		case (wasFull || n > 0) && time.Since(in.swept) >= sweepInterval:
			<-in.slots
			if err := in.sweep(ctx); err != nil {
				return err
			}
		case n > 0:
			<-in.slots
			in.fill(ctx)
		default:
			msg, err := next(ctx, in.consumer)
			if err != nil || msg == nil {
				<-in.slots
				if err != nil {
					return err
				}
				continue
			}
			f := in.fetched(msg, time.Now())
			in.waiting.start(f.tenant)
			in.start(ctx, f, in.handleMsg)
		}
	}
}

// awaitSlot takes a slot, and reports whether there was none at first. Meanwhile it renews the commands that wait, and offers them to other workers.
func (in *intake) awaitSlot(ctx context.Context) (wasFull bool, err error) {
	in.attend(ctx)
	select {
	case in.slots <- struct{}{}:
		return false, ctx.Err()
	default:
	}
	in.saturated = time.Now()
	defer func() { in.saturated = time.Time{} }()
	tick := time.NewTicker(min(offerInterval, in.renewInterval()))
	defer tick.Stop()
	for {
		select {
		case in.slots <- struct{}{}:
			return true, ctx.Err()
		case <-ctx.Done():
			return true, ctx.Err()
		case <-tick.C:
			in.attend(ctx)
		}
	}
}

// renewInterval leaves time for a renewal that fails.
func (in *intake) renewInterval() time.Duration { return in.cfg.AckWait / 3 }

// attend renews and offers the commands that wait, if that is due.
func (in *intake) attend(ctx context.Context) {
	if n, _ := in.waiting.size(); n == 0 || ctx.Err() != nil {
		return
	}
	if time.Since(in.renewed) >= in.renewInterval() {
		in.renew(ctx)
	}
	if time.Since(in.offered) >= offerInterval {
		in.offer(ctx)
	}
}

// renew keeps the commands that wait with this process. Only a renewal that the server has received counts, and it must have come before the lease was over: the
// server does not distinguish the deliveries of a command, and would renew that of another worker which runs it by now.
func (in *intake) renew(ctx context.Context) {
	in.renewed = time.Now()
	in.waiting.drop(in.expired)
	for _, f := range in.waiting.all() {
		if err := f.msg.InProgress(); err != nil {
			in.logAckFailure(ctx, "in progress", err)
			return
		}
	}
	flush, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	if err := in.js.Conn().FlushWithContext(flush); err != nil {
		in.logAckFailure(ctx, "in progress", err)
		return
	}
	in.waiting.drop(in.expired)
	for _, f := range in.waiting.all() {
		f.renewed = in.renewed
	}
}

// expired reports whether the server may redeliver a command, perhaps to another worker, before it receives what this process sends now.
func (in *intake) expired(f *fetched) bool { return time.Since(f.renewed) >= in.cfg.AckWait*9/10 }

// sweep fetches everything that is on the server, and starts what is next in turn.
func (in *intake) sweep(ctx context.Context) error {
	size := minSweepBatch
	for ctx.Err() == nil {
		if n, total := in.waiting.size(); n >= maxWaiting || total >= maxWaitingBytes {
			in.fill(ctx)
			break
		}
		n, largest, err := in.fetch(size)
		in.fill(ctx)
		if err != nil {
			return err
		}
		if n < size {
			break
		}
		size = max(minSweepBatch, min(maxSweepBatch, sweepBytes/largest, 4*size))
		in.attend(ctx)
	}
	in.swept = time.Now()
	return nil
}

// fetch fetches up to size commands, and returns their number and the size of the largest one. There can be some with an error.
func (in *intake) fetch(size int) (n, largest int, err error) {
	at := time.Now()
	batch, err := in.consumer.FetchNoWait(size)
	if err != nil {
		return 0, 0, err
	}
	largest = 1
	for msg := range batch.Messages() {
		f := in.fetched(msg, at)
		in.waiting.add(f)
		largest = max(largest, f.size)
		n++
	}
	return n, largest, batch.Error()
}

// fetched returns a delivery that was requested at a time.
func (in *intake) fetched(msg jetstream.Msg, at time.Time) *fetched {
	f := &fetched{msg: delivery{msg, in.present}, tenant: in.from.tenant(in.cfg.Layout, msg.Subject()), size: len(msg.Data()), renewed: at}
	if meta, err := msg.Metadata(); err == nil {
		f.seq = meta.Sequence.Stream
	}
	return f
}

// fill starts commands that wait while there are free slots.
func (in *intake) fill(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case in.slots <- struct{}{}:
		default:
			return
		}
		f := in.waiting.take()
		if f == nil {
			<-in.slots
			return
		}
		in.start(ctx, f, in.handleWaiting)
	}
}

// start handles a command that is counted as in progress and has a slot.
func (in *intake) start(ctx context.Context, f *fetched, handle func(context.Context, source, delivery)) {
	in.handling.Go(func() {
		defer func() {
			in.waiting.done(f.tenant)
			<-in.slots
		}()
		if !in.expired(f) {
			handle(ctx, in.from, f.msg)
		}
	})
}

// handleWaiting handles a command that has waited in this process, unless it was removed from the queue meanwhile. Without the check the session that was
// deleted would start again.
func (in *intake) handleWaiting(ctx context.Context, from source, msg delivery) {
	in.logAckFailure(ctx, "in progress", msg.InProgress())
	meta, err := msg.Metadata()
	var stored jsclient.Message
	if err == nil {
		stored, err = in.api.NextRetry(ctx, requestTimeout, from.stream, msg.Subject(), meta.Sequence.Stream)
	}
	switch {
	case errors.Is(err, jsclient.ErrNotFound), err == nil && (stored.Seq != meta.Sequence.Stream || !bytes.Equal(stored.Data, msg.Data())):
	case err != nil:
		in.cfg.Log.WarnContext(ctx, "waiting command not read again", "subject", msg.Subject(), "error", err)
		in.logAckFailure(ctx, "nak", msg.NakWithDelay(in.cfg.retryDelay(err, deliveries(msg)))) // the error may be permanent, as that of a missing permission
	default:
		in.handleMsg(ctx, from, msg)
	}
}

// offer returns commands to the server that other workers can start before this one. Each return counts as a delivery, so the delay after a failure can be
// longer than that of a first one.
func (in *intake) offer(ctx context.Context) {
	in.offered = time.Now()
	info, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	state, err := in.consumer.Info(info)
	switch {
	case err != nil:
		in.offered = in.offered.Add(infoPause)
		in.cfg.Log.WarnContext(ctx, "consumer state unknown", "stream", in.from.stream, "agentType", in.from.agentType, "error", err)
	case state.NumWaiting > 0:
		n, _ := in.waiting.size()
		in.giveBack(ctx, in.waiting.remove((n+1)/2), 0)
		in.swept = time.Now().Add(offerInterval) // or it would fetch them again at once
	case !in.saturated.IsZero() && time.Since(in.saturated) >= offerInterval:
		in.giveBack(ctx, in.waiting.removeOfEach(maxOffer), 0)
	}
}

// stop returns all commands that wait.
func (in *intake) stop(ctx context.Context) {
	n, _ := in.waiting.size()
	in.giveBack(ctx, in.waiting.remove(n), nakDelay)
}

// giveBack returns commands to the server, which redelivers them in this order, the first after a delay.
func (in *intake) giveBack(ctx context.Context, all []*fetched, delay time.Duration) {
	for i, f := range all {
		if in.expired(f) {
			continue
		}
		if err := f.msg.NakWithDelay(delay + time.Duration(i/returnBatch)*returnInterval); err != nil {
			in.logAckFailure(ctx, "nak", err)
			return
		}
	}
}
