package producers

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// wakePump lets the pump check the queue. The lock is held.
func (r *Run) wakePump() {
	switch {
	case r.queue.waiting() == 0:
	case !r.running:
		r.running = true
		r.pumping.Go(r.pump)
	case r.pacing:
		wait.Signal(r.wake)
	}
}

// pump stores the queued records and ends when the queue is empty. All accesses to the log between two flushes are made here.
func (r *Run) pump() {
	for {
		it := r.next()
		if it == nil {
			return
		}
		r.flush(it)
	}
}

// next takes the oldest item when it is due. It returns nil when the queue is empty.
func (r *Run) next() *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		it, wait := r.take()
		if it != nil || wait == 0 {
			r.running = it != nil
			return it
		}
		r.awaitPace(wait)
	}
}

// take takes the oldest item if it is due. Otherwise it returns the time until then; 0 if the queue is empty. The lock is held.
func (r *Run) take() (*item, time.Duration) {
	for {
		it, wait := r.queue.take(time.Now())
		if it == nil {
			return nil, wait
		}
		if r.rejectCleanEnd(it) {
			continue
		}
		r.inFlight = it
		r.makeSpace()
		return it, 0
	}
}

// rejectCleanEnd rejects the clean end of a run of which a chunk was not stored: End returns that error, and the caller decides how the run ends.
func (r *Run) rejectCleanEnd(it *item) bool {
	if it.transition == nil || !it.transition.clean || r.unreported.count == 0 {
		return false
	}
	r.resolve(it, 0, r.unreported.take())
	return true
}

// awaitPace waits without the lock, until wakePump or the end of the run.
func (r *Run) awaitPace(wait time.Duration) {
	r.pacing = true
	r.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-r.wake:
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	r.pacing = false
}

func (r *Run) makeSpace() {
	if r.spaceFreed != nil {
		close(r.spaceFreed)
		r.spaceFreed = nil
	}
}

// A flush has at most this many records and bytes. The leader of a stream holds a batch in memory until it is complete.
const (
	maxFlush      = 256
	maxFlushBytes = 256 << 10
)

// flush stores it, and with it those of the queued records that are due, if the log stores batches.
func (r *Run) flush(it *item) {
	s, err := r.ready(it)
	if err != nil {
		r.finish([]*item{it}, 0, err)
		return
	}
	items := r.extend(s, []*item{it})
	seq, err := s.run(r.ctx)
	if errors.Is(err, errNoBatch) {
		r.slog.LogAttrs(r.ctx, slog.LevelDebug, "batch refused", slog.Int("records", len(items)), slog.Any("error", err))
		r.storeSingly(items, s.maybeStored)
		return
	}
	seq, err = r.onStored(items, s, seq, err)
	r.finish(items, seq, err)
}

// extend adds queued records to a flush. A record that cannot be encoded stays in the queue: it gets its error as the first one of a flush. One that deletes others is
// stored alone: if its deletes fail, the error is not that of other records.
func (r *Run) extend(s *publishOp, items []*item) []*item {
	r.mu.Lock()
	more := r.queue.waiting() > 0
	r.mu.Unlock()
	if !more || len(items[0].deletes) > 0 || !r.log.storesBatches(r.ctx) {
		return items
	}
	for len(items) < maxFlush {
		r.mu.Lock()
		it, _ := r.take()
		r.mu.Unlock()
		if it == nil {
			break
		}
		if len(it.deletes) > 0 || s.m.bytes+it.memory() > maxFlushBytes || r.encode(&s.m, it) != nil {
			r.putBack(items[len(items)-1], it)
			break
		}
		items = append(items, it)
	}
	return items
}

// putBack returns items to the head of the queue. They were due before.
func (r *Run) putBack(inFlight *item, items ...*item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range items {
		it.urgent = true
	}
	r.queue.unshift(items)
	r.inFlight = inFlight
}

// storeSingly stores the items of a refused batch one by one. An attempt to store the batch may have been stored, or be stored yet: then these items are in flight
// until their outcomes are known, with the bytes that they had, and none of them is reported as not stored. Otherwise those after a refused one return to the queue.
func (r *Run) storeSingly(items []*item, maybeStored bool) {
	for i, it := range items {
		s, err := r.ready(it)
		var seq chunk.Seq
		switch {
		case err == nil:
			s.maybeStored = maybeStored
			seq, err = s.run(r.ctx)
			maybeStored = maybeStored && s.last != jsclient.Stored // this one was stored alone, so the batch is not
			seq, err = r.onStored(items[i:i+1], s, seq, err)
		case maybeStored:
			err = r.wrapError(it, fmt.Errorf("%w: %w", errUnknown, errors.Unwrap(err)))
		}
		if err != nil {
			r.putBack(it, items[i+1:]...)
		}
		r.finish(items[i:i+1], seq, err)
		if err != nil {
			return
		}
	}
}

// ready runs the pending deletes and encodes the first message of a flush.
func (r *Run) ready(it *item) (*publishOp, error) {
	if err := r.runDeletes(); err != nil {
		return nil, &notStoredError{Session: r.session, Type: it.typ, Cause: err, halts: true}
	}
	s := r.newOp()
	if err := r.encode(&s.m, it); err != nil {
		return nil, &notStoredError{Session: r.session, Type: it.typ, Cause: err, halts: errors.Is(err, ErrSessionLimit)}
	}
	return s, nil
}

// newOp returns a publishOp without a message.
func (r *Run) newOp() *publishOp {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	now := time.Now()
	m := outgoing{number: r.number, after: r.pos, sessionBytes: r.sessionBytes}
	return &publishOp{log: r.log, m: m, slog: r.slog, began: now, deadline: now.Add(r.cfg.RetryTimeout)}
}

// onStored records the outcome of a flush. If it is stored, the deletes of its last record are run. It returns the sequence of that record.
func (r *Run) onStored(items []*item, s *publishOp, seq chunk.Seq, err error) (chunk.Seq, error) {
	if err != nil {
		err = r.wrapError(items[0], err)
		r.observe(s, err)
		return 0, err
	}
	r.observe(s, nil)
	r.mu.Lock()
	r.stats.count(s)
	r.pos = chunk.Position{Seq: seq, Ordinal: r.pos.Ordinal + chunk.Ordinal(len(items))}
	for _, it := range items {
		if it.input != nil {
			r.storedInput = *it.input
		}
	}
	r.mu.Unlock()
	r.sessionBytes = s.m.sessionBytes
	r.pendingDeletes = items[len(items)-1].deletes
	return seq, r.runDeletes()
}

// encode adds it to m as the message with the next ordinal.
func (r *Run) encode(m *outgoing, it *item) error {
	ordinal := m.after.Ordinal + chunk.Ordinal(len(m.messages)) + 1
	e, err := encode(codec.Envelope{Session: r.session, Epoch: r.epoch, Ordinal: ordinal, Format: r.cfg.Format}, it)
	if err != nil {
		return err
	}
	if it.input != nil {
		e.SetInput(*it.input)
	}
	if r.trace != "" && it.typ.Control() && it.typ != chunk.TypeTruncated {
		e.SetTraceParent(r.trace)
	}
	sum := m.sessionBytes + int64(len(e.Data))
	e.SetSessionBytes(sum)
	if len(m.messages) == 0 {
		e.Header[headerExpectedSeq] = []string{strconv.FormatUint(uint64(m.after.Seq), 10)}
	}
	size := messageSize(e)
	if limit := r.log.maxMessageSize(); size > limit {
		return fmt.Errorf("%w: %d bytes with headers, want at most %d", chunk.ErrTooLarge, size, limit)
	}
	if err := r.cfg.overLimit(it.typ, ordinal, sum); err != nil {
		return err
	}
	m.messages = append(m.messages, &nats.Msg{Header: e.Header, Data: e.Data})
	m.bytes += size
	m.sessionBytes = sum
	return nil
}

// limitReserve is how much of a session may be beyond Config.MaxSessionBytes: half of it for records of a run that is open, and all of it for those that open one,
// so that a worker can take over a run at the limit, remove a step of it and end it.
const limitReserve = 4 << 20

// overLimit returns the ErrSessionLimit of a record after which the session has a number of bytes. The end of a run is below each limit, and there is at most one for
// each start.
func (c Config) overLimit(typ chunk.Type, ordinal chunk.Ordinal, sum int64) error {
	limit := c.MaxSessionBytes
	switch {
	case typ.Terminal():
		return nil
	case !typ.Control() && c.MaxSessionChunks > 0 && int64(ordinal) > c.MaxSessionChunks:
		return fmt.Errorf("%w: %d chunks", ErrSessionLimit, c.MaxSessionChunks)
	case typ == chunk.TypeRunStarted:
		sum -= limitReserve
	case typ.Control():
		sum -= limitReserve / 2
	}
	if limit > 0 && sum > limit {
		return fmt.Errorf("%w: %d bytes", ErrSessionLimit, limit)
	}
	return nil
}

func encode(e codec.Envelope, it *item) (codec.Encoded, error) {
	if e.Format != codec.FormatJSON {
		return codec.Encode(e, it.c)
	}
	body := it.body
	if body == nil {
		var err error
		if body, err = it.c.AppendJSON(make([]byte, 0, it.size+256)); err != nil {
			return codec.Encoded{}, err
		}
	}
	return codec.EncodeJSON(e, codec.Header{Type: it.typ, Timestamp: it.timestamp}, body), nil
}

// messageSize returns the size of a message as the server counts it.
func messageSize(e codec.Encoded) int {
	n := len("NATS/1.0\r\n\r\n") + len(e.Data)
	for name, values := range e.Header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// wrapError converts the outcome of a publish to an error of the package.
func (r *Run) wrapError(it *item, err error) error {
	if over, ok := errors.AsType[*conflictError](err); ok {
		return r.fenced(over.by)
	}
	halts := errors.Is(err, errNotAccepting)
	err = jsclient.NoStorage(err)
	switch {
	case errors.Is(err, errUnknown):
		return fmt.Errorf("session %s: %s %s: %w: %w", r.session, it.typ, chunk.EventID(r.epoch, r.Position().Ordinal+1), chunk.ErrUnknownOutcome, err)
	case r.ctx.Err() != nil:
		err, halts = ErrClosed, true
	case jsclient.IsTooLarge(err): // the limit of the stream is below that of the server
		err = fmt.Errorf("%w: %w", chunk.ErrTooLarge, err)
	}
	return &notStoredError{Session: r.session, Type: it.typ, Cause: err, halts: halts}
}

func (r *Run) fenced(by message) error {
	e := &FencedError{Session: r.session, Epoch: r.epoch, At: by.seq}
	if epoch, _, ok := chunk.ParseEventID(headerOf(by.header, headerID)); ok {
		e.By = epoch
	}
	return e
}

// finish sets the result of a flush, of which seq is the last sequence, and that of all queued items if the error applies to them.
func (r *Run) finish(items []*item, seq chunk.Seq, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inFlight == items[len(items)-1] {
		r.inFlight = nil
	}
	for i, it := range items {
		r.resolve(it, seq-chunk.Seq(len(items)-1-i), err)
	}
	if err == nil {
		return
	}
	r.slog.Warn("record not stored", "type", string(items[0].typ), "error", err)
	if sticky(err) {
		r.fatal = err
		r.failQueued(err)
	}
	if not, ok := errors.AsType[*notStoredError](err); ok && not.halts {
		r.failQueued(&notStoredError{Session: r.session, Cause: fmt.Errorf("earlier record not stored: %w", not.Cause)})
	}
}

// failQueued sets the same result for all queued items.
func (r *Run) failQueued(err error) {
	for _, it := range r.queue.drain() {
		r.resolve(it, 0, err)
	}
	r.makeSpace()
}

// resolve sets the result of an item. No other function does.
func (r *Run) resolve(it *item, seq chunk.Seq, err error) {
	it.seq, it.err = seq, err
	if r.pendingTransition == it {
		r.pendingTransition = nil
		if err == nil {
			r.state = it.transition.to
		}
	}
	if it.reportLater && err != nil && !sticky(err) {
		r.unreported.add(err)
	}
	r.fatalReported = r.fatalReported || sticky(err) && (it.done != nil || it.inline) && !it.reportLater
	if it.done != nil {
		close(it.done)
	}
}
