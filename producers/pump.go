package producers

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// kick makes sure that the pump looks at the queue. The lock is held.
func (r *Run) kick() {
	switch {
	case r.queue.waiting() == 0:
	case !r.running:
		r.running = true
		r.pumping.Go(r.pump)
	case r.lingering:
		select {
		case r.wake <- struct{}{}:
		default: // it was told already
		}
	}
}

// pump stores what waits, one record after the other, and ends when nothing
// does. Everything that touches the log between two records happens here.
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

// next takes the oldest item, after its window; nil when the pump is done.
func (r *Run) next() *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		it, wait := r.queue.take(time.Now())
		switch {
		case it != nil && r.heldBack(it):
			continue
		case it != nil:
			r.flying = it
			r.makeSpace()
			return it
		case wait == 0:
			r.running = false
			return nil
		}
		r.lingerFor(wait)
	}
}

// heldBack refuses the good end of a run that has lost a chunk: End reports the
// loss, and the run decides what its end is.
func (r *Run) heldBack(it *item) bool {
	if it.move == nil || !it.move.clean || r.lost.count == 0 {
		return false
	}
	r.resolve(it, 0, r.lost.take())
	return true
}

// lingerFor waits without the lock.
func (r *Run) lingerFor(wait time.Duration) {
	r.lingering = true
	r.mu.Unlock()
	t := time.NewTimer(wait)
	select {
	case <-t.C:
	case <-r.wake:
	case <-r.ctx.Done():
	}
	t.Stop()
	r.mu.Lock()
	r.lingering = false
}

func (r *Run) makeSpace() {
	if r.space != nil {
		close(r.space)
		r.space = nil
	}
}

// store ends with it in the log or with an error for the caller.
func (r *Run) store(it *item) (chunk.Seq, error) {
	s, err := r.ready(it)
	if err != nil {
		return 0, err
	}
	seq, err := s.run(r.ctx)
	return r.conclude(it, seq, err)
}

// ready pays what is owed and makes the message.
func (r *Run) ready(it *item) (*storing, error) {
	if err := r.pay(); err != nil {
		return nil, &NotStoredError{Session: r.session, Type: it.typ, Cause: err, halts: true}
	}
	m, err := r.encode(it)
	if err != nil {
		return nil, &NotStoredError{Session: r.session, Type: it.typ, Cause: err}
	}
	return r.storing(m), nil
}

func (r *Run) storing(m outgoing) *storing {
	return &storing{log: r.log, m: m, slog: r.slog, deadline: time.Now().Add(r.cfg.Patience)}
}

// conclude takes note of where it is stored, and does what that obliges to.
func (r *Run) conclude(it *item, seq chunk.Seq, err error) (chunk.Seq, error) {
	if err != nil {
		return 0, r.explain(it, err)
	}
	r.mu.Lock()
	r.pos = chunk.Position{Seq: seq, Ordinal: r.pos.Ordinal + 1}
	r.mu.Unlock()
	r.owed = it.owes
	return seq, r.pay()
}

// encode makes the message of it, at the next ordinal.
func (r *Run) encode(it *item) (outgoing, error) {
	r.mu.Lock()
	at, ordinal := r.pos, r.pos.Ordinal+1
	r.number++
	number := r.number
	r.mu.Unlock()
	m, err := encode(r.session, r.epoch, ordinal, it, r.cfg.Format)
	if err != nil {
		return outgoing{}, err
	}
	out := guarded(m, at.Seq)
	out.number = number
	if size := out.size(); size > r.log.room() {
		return outgoing{}, fmt.Errorf("%w: %d bytes with headers, and the server takes %d", chunk.ErrTooLarge, size, r.log.room())
	}
	return out, nil
}

func encode(s chunk.Session, e chunk.Epoch, o chunk.Ordinal, it *item, f codec.Format) (codec.Message, error) {
	if f != codec.FormatJSON {
		return codec.Encode(s, e, o, it.c, f)
	}
	body := it.body
	if body == nil {
		var err error
		if body, err = it.c.AppendJSON(make([]byte, 0, it.size+256)); err != nil {
			return codec.Message{}, err
		}
	}
	return codec.EncodeJSON(s, e, o, it.typ, it.timestamp, body), nil
}

// guarded is m with the condition under which the server may store it.
func guarded(m codec.Message, after chunk.Seq) outgoing {
	m.Header[headerGuard] = []string{strconv.FormatUint(uint64(after), 10)}
	return outgoing{after: after, header: m.Header, data: m.Data}
}

// size of the message as the server counts it.
func (o outgoing) size() int {
	n := len("NATS/1.0\r\n\r\n") + len(o.data)
	for name, values := range o.header {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// explain turns the outcome of storing into an error of the package.
func (r *Run) explain(it *item, err error) error {
	if over, ok := errors.AsType[*overtaken](err); ok {
		return r.fenced(over.by)
	}
	switch {
	case errors.Is(err, errUnknown):
		return &UnknownOutcomeError{Session: r.session, Epoch: r.epoch, Ordinal: r.Position().Ordinal + 1, Type: it.typ, Cause: err}
	case r.ctx.Err() != nil:
		err = ErrClosed
	case tooLarge(err):
		err = fmt.Errorf("%w: %w", chunk.ErrTooLarge, err)
	}
	return &NotStoredError{Session: r.session, Type: it.typ, Cause: err, halts: errors.Is(err, errHalted)}
}

// tooLarge: the stream's limit is below ours.
func tooLarge(err error) bool {
	api, ok := errors.AsType[*apiError](err)
	return ok && (api.ErrCode == codeTooLarge || api.ErrCode == codeHeaderTooLarge)
}

func (r *Run) fenced(by message) error {
	e := &FencedError{Session: r.session, Epoch: r.epoch, At: by.seq}
	if epoch, _, ok := chunk.ParseEventID(headerOf(by.header, headerID)); ok {
		e.By = epoch
	}
	return e
}

// finish gives it its result, and what waits behind it theirs if it was the end.
func (r *Run) finish(it *item, seq chunk.Seq, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying = nil
	r.resolve(it, seq, err)
	if err == nil {
		return
	}
	r.slog.Warn("a record was not stored", "type", string(it.typ), "error", err)
	if sticky(err) {
		r.dead = err
		r.abandon(err)
	}
	if not, ok := errors.AsType[*NotStoredError](err); ok && not.halts {
		r.abandon(&NotStoredError{Session: r.session, Cause: fmt.Errorf("a record before it could not be stored: %w", not.Cause)})
	}
}

// abandon gives everything that waits the same result.
func (r *Run) abandon(err error) {
	for _, it := range r.queue.drain() {
		r.resolve(it, 0, err)
	}
	r.makeSpace()
}

// resolve is the one place where an item gets its result.
func (r *Run) resolve(it *item, seq chunk.Seq, err error) {
	it.seq, it.err = seq, err
	if r.moving == it {
		r.moving = nil
		if err == nil {
			r.state = it.move.to
		}
	}
	if it.unheard && err != nil && !sticky(err) {
		r.lost.add(err)
	}
	r.told = r.told || sticky(err) && (it.done != nil || it.led)
	if it.done != nil {
		close(it.done)
	}
}
