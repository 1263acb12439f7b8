package producers

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// wakePump lets the pump check the queue. The lock is held.
func (r *Run) wakePump() {
	switch {
	case r.queue.waiting() == 0:
	case !r.running:
		r.running = true
		r.pumping.Go(r.pump)
	case r.pacing:
		select {
		case r.wake <- struct{}{}:
		default: // already notified
		}
	}
}

// pump stores the queued records, one after the other, and ends when the queue is empty. All accesses to the log between two records are made here.
func (r *Run) pump() {
	for {
		it := r.next()
		if it == nil {
			return
		}
		seq, err := r.store(it)
		r.finish(it, seq, err)
	}
}

// next takes the oldest item when it is due. It returns nil when the queue is empty.
func (r *Run) next() *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		it, wait := r.queue.take(time.Now())
		switch {
		case it != nil && r.rejectCleanEnd(it):
			continue
		case it != nil:
			r.inFlight = it
			r.makeSpace()
			return it
		case wait == 0:
			r.running = false
			return nil
		}
		r.awaitPace(wait)
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

// store stores it, or returns an error for the caller.
func (r *Run) store(it *item) (chunk.Seq, error) {
	s, err := r.ready(it)
	if err != nil {
		return 0, err
	}
	seq, err := s.run(r.ctx)
	return r.onStored(it, s, seq, err)
}

// ready runs the pending deletes and encodes the message.
func (r *Run) ready(it *item) (*publishOp, error) {
	if err := r.runDeletes(); err != nil {
		return nil, &NotStoredError{Session: r.session, Type: it.typ, Cause: err, halts: true}
	}
	m, err := r.encode(it)
	if err != nil {
		return nil, &NotStoredError{Session: r.session, Type: it.typ, Cause: err, halts: errors.Is(err, ErrSessionLimit)}
	}
	return r.storing(m), nil
}

func (r *Run) storing(m outgoing) *publishOp {
	now := time.Now()
	return &publishOp{log: r.log, m: m, slog: r.slog, began: now, deadline: now.Add(r.cfg.RetryTimeout)}
}

// onStored records the outcome of it. If it is stored, its deletes are run.
func (r *Run) onStored(it *item, s *publishOp, seq chunk.Seq, err error) (chunk.Seq, error) {
	if err != nil {
		err = r.wrapError(it, err)
		r.observe(s, err)
		return 0, err
	}
	r.observe(s, nil)
	r.mu.Lock()
	r.stats.count(s)
	r.pos = chunk.Position{Seq: seq, Ordinal: r.pos.Ordinal + 1}
	if it.input != nil {
		r.storedInput = *it.input
	}
	r.mu.Unlock()
	r.sessionBytes = s.m.sessionBytes
	r.pendingDeletes = it.deletes
	return seq, r.runDeletes()
}

// encode encodes it as a message with the next ordinal.
func (r *Run) encode(it *item) (outgoing, error) {
	r.mu.Lock()
	at, ordinal := r.pos, r.pos.Ordinal+1
	r.number++
	number := r.number
	r.mu.Unlock()
	m, err := encode(codec.Envelope{Session: r.session, Epoch: r.epoch, Ordinal: ordinal, Format: r.cfg.Format}, it)
	if err != nil {
		return outgoing{}, err
	}
	if it.input != nil {
		m.SetInput(*it.input)
	}
	if r.trace != "" && it.typ.Control() && it.typ != chunk.TypeTruncated {
		m.SetTraceParent(r.trace)
	}
	sum := r.sessionBytes + int64(len(m.Data))
	m.SetSessionBytes(sum)
	m.Header[headerExpectedSeq] = []string{strconv.FormatUint(uint64(at.Seq), 10)}
	out := outgoing{number: number, after: at.Seq, header: m.Header, data: m.Data, sessionBytes: sum}
	if out.bytes = out.size(); out.bytes > r.log.maxMessageSize() {
		return outgoing{}, fmt.Errorf("%w: %d bytes with headers, want at most %d", chunk.ErrTooLarge, out.bytes, r.log.maxMessageSize())
	}
	if err := r.cfg.overLimit(it.typ, ordinal, sum); err != nil {
		return outgoing{}, err
	}
	return out, nil
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

// size returns the size of the message as the server counts it.
func (o outgoing) size() int {
	n := len("NATS/1.0\r\n\r\n") + len(o.data)
	for name, values := range o.header {
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
	err = jsclient.NoStorage(err)
	switch {
	case errors.Is(err, errUnknown):
		return &UnknownOutcomeError{Session: r.session, Epoch: r.epoch, Ordinal: r.Position().Ordinal + 1, Type: it.typ, Cause: err}
	case r.ctx.Err() != nil:
		err = ErrClosed
	case jsclient.IsTooLarge(err): // the limit of the stream is below that of the server
		err = fmt.Errorf("%w: %w", chunk.ErrTooLarge, err)
	}
	return &NotStoredError{Session: r.session, Type: it.typ, Cause: err, halts: errors.Is(err, errNotAccepting)}
}

func (r *Run) fenced(by message) error {
	e := &FencedError{Session: r.session, Epoch: r.epoch, At: by.seq}
	if epoch, _, ok := chunk.ParseEventID(headerOf(by.header, headerID)); ok {
		e.By = epoch
	}
	return e
}

// finish sets the result of it, and that of all queued items if the error applies to them.
func (r *Run) finish(it *item, seq chunk.Seq, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight = nil
	r.resolve(it, seq, err)
	if err == nil {
		return
	}
	r.slog.Warn("record not stored", "type", string(it.typ), "error", err)
	if sticky(err) {
		r.fatal = err
		r.failQueued(err)
	}
	if not, ok := errors.AsType[*NotStoredError](err); ok && not.halts {
		r.failQueued(&NotStoredError{Session: r.session, Cause: fmt.Errorf("earlier record not stored: %w", not.Cause)})
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
	r.fatalReported = r.fatalReported || sticky(err) && (it.done != nil || it.inline)
	if it.done != nil {
		close(it.done)
	}
}
