package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// durable is the loop of one partition of a durable firehose. It acknowledges in order, after Commit.
type durable struct {
	*partitionLoop

	pinned       *jsreader.Pinned
	handled      uint64             // sequence up to which deliveries are handled
	unacked      []jsreader.Receipt // of the deliveries that are handled and not acknowledged
	unackedSince time.Time          // of the first of them
	commitTimer  *time.Timer        // runs while unacked is not empty, and in a range that ends
	passed       bool               // to handle: the present delivery, which waits for its confirmation
	first        uint64             // first sequence of the stream, 0 until handleBatch has requested it
	part         sequences
	over         bool // everything of a range that ends is handled
	reported     bool // that it is over
}

// runDurable reads the consumer that keeps the position on the server.
func (l *partitionLoop) runDurable(ctx context.Context) error {
	d := &durable{partitionLoop: l, commitTimer: time.NewTimer(l.cfg.CommitInterval)}
	defer d.commitTimer.Stop()
	if l.cfg.bounded() || !l.cfg.Since.IsZero() {
		var err error
		if d.part, err = l.sequences(ctx); err != nil {
			return err
		}
	}
	if !d.part.ends {
		d.commitTimer.Stop()
	}
	// The server serves another program when the one that it serves has sent no request for three quarters of the timeout; a waiting program looks at every
	// heartbeat whether records without acknowledgement have no reader any more.
	d.pinned = jsreader.NewPinned(l.reader.client, jsreader.PinnedConfig{
		Stream: l.stream, Name: l.cfg.Name, Description: "tailrace firehose", Filter: l.filter, FromLatest: l.cfg.FromLatest && l.cfg.Since.IsZero(),
		Epoch: d.part.epoch, After: d.part.after,
		Ahead: l.cfg.Batch, Request: l.cfg.Batch, Batch: l.cfg.CommitRecords, AckWait: l.cfg.AckWait, TakeoverTimeout: l.cfg.TakeoverTimeout * 3 / 4,
		InOrderOnly: true, Wake: d.commitTimer.C, OnWait: l.reportWait,
		OpenTimeout: l.reader.cfg.OpenTimeout, WarnAfter: l.reader.cfg.OpenTimeout, Heartbeat: min(l.reader.cfg.Heartbeat, l.cfg.TakeoverTimeout/6),
		OnReset: func() { l.reader.resets.Add(1) }, Log: l.reader.cfg.Log,
	})
	if l.confirmations.slots != nil {
		l.confirmations.begin(l.partition, d.pinned)
		defer l.confirmations.end(l.partition)
		l.before = func(ctx context.Context, e *jsreader.Entry) error {
			d.passed = true
			return l.confirmations.deliver(ctx, l.partition, e)
		}
	}
	err := d.pinned.Run(ctx, d.handleBatch)
	switch {
	case errors.Is(err, jsreader.ErrEnd):
		err = nil
	case errors.Is(err, jsreader.ErrRecreated):
		err = &chunk.TruncatedError{Reason: chunk.TruncatedRecreated, After: chunk.Seq(max(d.handled, d.pinned.Acknowledged()))}
	}
	// The handled records are committed and acknowledged for every reason that ends the loop. Only an error of Commit replaces that reason.
	if rejected, ok := errors.AsType[*commitError](d.commitAndAck(ctx)); ok {
		err = rejected
	}
	d.pinned.Release(ctx)
	return err
}

// reportWait logs, once for all partitions of a Run, that another program reads.
func (l *partitionLoop) reportWait() {
	if l.waiting.CompareAndSwap(false, true) {
		l.reader.cfg.Log.Warn("firehose waits for another reader of its name", slog.String("firehose", l.cfg.Name), slog.String("stream", l.stream))
	}
}

// PartitionLag is how far a durable Firehose is behind the end of one partition.
type PartitionLag struct {
	Partition int
	Waiting   uint64 // messages that the server has not delivered
	Unacked   uint64 // messages that were delivered and are not acknowledged
}

// Lag returns the lag of a durable Firehose by partition, whether this process reads it or another one. The error is jetstream.ErrConsumerNotFound if it was
// never run. For an ephemeral Firehose Lag returns nil. It makes one request for each partition.
func (f *Firehose) Lag(ctx context.Context) ([]PartitionLag, error) {
	if f.cfg.Name == "" {
		return nil, nil
	}
	lags := make([]PartitionLag, 0, len(f.filters))
	for p := range f.filters {
		stream := f.reader.cfg.Layout.Stream(p)
		consumer, err := retry(ctx, f.reader, f.reader.cfg.OpenTimeout, func(ctx context.Context) (jetstream.Consumer, error) {
			return f.reader.client.JetStream().Consumer(ctx, stream, f.cfg.Name)
		})
		if err != nil {
			return nil, fmt.Errorf("firehose %s of %s: %w", f.cfg.Name, stream, err)
		}
		info := consumer.CachedInfo()
		lags = append(lags, PartitionLag{Partition: p, Waiting: info.NumPending, Unacked: uint64(max(0, info.NumAckPending))})
	}
	return lags, nil
}

// handleBatch handles deliveries. Without entries the commit timer has fired.
func (d *durable) handleBatch(ctx context.Context, entries []jsreader.Entry) error {
	d.first = 0
	for i := range entries {
		if ctx.Err() != nil { // a handler need not look at ctx, and must not get the rest of the batch
			return context.Cause(ctx)
		}
		if d.part.ends && entries[i].Seq > d.part.through { // the next Run gets it
			d.over = true
			continue
		}
		if err := d.process(ctx, &entries[i]); err != nil {
			return err
		}
		if err := d.commitIfDue(ctx, i == len(entries)-1); err != nil {
			return err
		}
	}
	if err := d.commitIfDue(ctx, false); err != nil || !d.part.ends {
		return err
	}
	return d.endIfOver(ctx, len(entries) == 0)
}

// endIfOver ends Run when everything of its range is handled and confirmed. It is called again after CommitInterval without deliveries.
func (d *durable) endIfOver(ctx context.Context, idle bool) error {
	if idle && !d.over {
		var err error
		if d.over, err = d.isOver(ctx); err != nil {
			return err
		}
	}
	if d.over && !d.reported {
		d.reported = true
		d.handledRange()
	}
	if d.over && !d.confirmations.wait(d.partition) {
		return jsreader.ErrEnd
	}
	d.commitTimer.Reset(d.cfg.CommitInterval)
	return nil
}

// isOver reports whether the log has nothing to deliver of the range any more: its last records may be of other sessions, or removed.
func (d *durable) isOver(ctx context.Context) (bool, error) {
	at := max(d.handled, d.pinned.Acknowledged())
	if at >= d.part.through {
		return true, nil
	}
	next, err := retry(ctx, d.reader, 0, func(ctx context.Context) (jsclient.Message, error) {
		return d.reader.client.Next(ctx, d.stream, d.filter, at+1)
	})
	if errors.Is(err, jsclient.ErrNotFound) {
		return true, nil
	}
	return next.Seq > d.part.through, err
}

// process handles one delivery. The server redelivers a handled record if its acknowledgement was lost or late.
func (d *durable) process(ctx context.Context, e *jsreader.Entry) error {
	switch {
	case e.Seq > d.handled:
		if err := d.checkExpired(ctx, e); err != nil {
			return err
		}
		d.passed = false
		if err := d.deliver(ctx, e); err != nil {
			return err
		}
		if d.handled = e.Seq; d.passed {
			return nil
		}
	case d.confirmations.slots != nil: // the first receipt is kept for the confirmation
		return nil
	}
	if len(d.unacked) == 0 {
		d.unackedSince = time.Now()
		d.commitTimer.Reset(d.cfg.CommitInterval)
	}
	d.unacked = append(d.unacked, e.Receipt())
	return nil
}

// commitIfDue commits and acknowledges after CommitRecords deliveries, after CommitInterval, or, without a Commit, at the end of a batch.
func (d *durable) commitIfDue(ctx context.Context, idle bool) error {
	switch {
	case len(d.unacked) == 0:
		return nil
	case len(d.unacked) >= d.cfg.CommitRecords,
		d.cfg.Commit == nil && idle,
		time.Since(d.unackedSince) >= d.cfg.CommitInterval:
		return d.commitAndAck(ctx)
	}
	return nil
}

// commitAndAck commits and acknowledges the handled records. A lost acknowledgement causes a redelivery, which process recognises.
func (d *durable) commitAndAck(ctx context.Context) error {
	if err := d.commit(ctx); err != nil {
		return err
	}
	err := d.pinned.Ack(d.unacked...)
	if errors.Is(err, jsreader.ErrRecreated) {
		err = nil // there is nothing left to acknowledge
	}
	d.unacked = d.unacked[:0]
	d.commitTimer.Stop()
	return err
}

// commit calls Commit. The records stay unacknowledged if it fails.
func (d *durable) commit(ctx context.Context) error {
	if d.cfg.Commit == nil || len(d.unacked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.AckWait/2)
	defer cancel()
	if err := d.cfg.Commit(ctx); err != nil {
		d.unacked = nil
		return &commitError{stream: d.stream, cause: err}
	}
	return nil
}

// commitError is an error of Commit.
type commitError struct {
	stream string
	cause  error
}

func (e *commitError) Error() string {
	return fmt.Sprintf("commit records of %s: %v", e.stream, e.cause)
}

func (e *commitError) Unwrap() error { return e.cause }
