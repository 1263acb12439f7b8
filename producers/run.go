package producers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Run is the writer of one run of a session. Its methods may be called from
// many goroutines: what one goroutine emits keeps its order, and all readers
// see one order of everything.
//
// A Run owns at most one goroutine, which lives while records wait and ends
// with them; an idle Run is two kilobytes. Close ends it for good.
type Run struct {
	session   chunk.Session
	epoch     chunk.Epoch
	runID     string
	agentType string
	announced chunk.SubagentStart // what the parent's session says of this one; zero without parent

	cfg      Config
	log      sessionLog
	slog     *slog.Logger
	producer *Producer
	step     atomic.Int64

	ctx     context.Context //nolint:containedctx // the life of the pump, which no single call spans
	cancel  context.CancelFunc
	pumping sync.WaitGroup
	wake    chan struct{} // tells a lingering pump to look again

	cleaning chan struct{} // holds a token while a clean-up is under way

	owed []chunk.Seq // deletes that a clean-up promised; belongs to whoever is the pump

	mu        sync.Mutex     // guards everything below and the items in queue
	queue     queue          // what waits
	flying    *item          // what is on its way, nil when nothing is
	running   bool           // the pump lives
	lingering bool           // and waits for a delta's window to pass
	moving    *item          // the change of state that is queued or on its way
	state     state          // as the log has it
	pos       chunk.Position // last stored record
	number    uint64         // messages made so far
	lost      loss           // emitted chunks that were not stored, until somebody is told
	dead      error          // fenced or unknown outcome: the end
	told      bool           // dead was returned to somebody
	closed    bool
	space     chan struct{} // closed when the queue has room again; nil while nobody waits for it
}

// loss is what later calls have to tell.
type loss struct {
	count int
	first error
}

func (l *loss) add(err error) {
	if l.count == 0 {
		l.first = err
	}
	l.count++
}

// take gives the error to tell, once.
func (l *loss) take() error {
	if l.count == 0 {
		return nil
	}
	err := fmt.Errorf("%d emitted earlier are lost, the first: %w", l.count, l.first)
	if l.count == 1 {
		err = fmt.Errorf("emitted earlier: %w", l.first)
	}
	*l = loss{}
	return err
}

// Session is the session that the run writes.
func (r *Run) Session() chunk.Session { return r.session }

// Epoch is the fence of the run: the log takes nothing of it once a higher one
// has begun.
func (r *Run) Epoch() chunk.Epoch { return r.epoch }

// ID is the run's id, as its run_started has it.
func (r *Run) ID() string { return r.runID }

// Position is the run's last stored record.
func (r *Run) Position() chunk.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pos
}

// SetStep sets the step that Say and the run's own records carry from now on.
// It starts at 0.
func (r *Run) SetStep(n int64) { r.step.Store(n) }

// Emit queues c behind everything emitted before and returns: nil means
// queued, not stored. While the queue is full it blocks; if ctx ends first, c
// is not queued.
//
// The base members may be left empty and are filled in: AgentID with the
// session's id, which is the only value it may have, AgentType with the run's,
// Timestamp with the present time. A chunk that breaks the catalogue is refused
// with chunk.ErrInvalid, one over Config.MaxChunk with chunk.ErrTooLarge; a
// delta that is too long is split.
//
// If a chunk emitted before could not be stored, Emit returns that error, once,
// and does not queue c: the run decides whether to go on.
func (r *Run) Emit(ctx context.Context, c chunk.Chunk) error {
	_, err := r.put(ctx, c, false)
	return err
}

// Write is Emit, and waits until c is stored: nil means that the log has it, at
// the sequence returned. Deltas that wait are sent at once. A delta that was
// merged or split has the sequence of the record that holds its end.
//
// If ctx ends while c waits, its error is returned; c stays queued, and if it
// fails later the next call tells.
func (r *Run) Write(ctx context.Context, c chunk.Chunk) (chunk.Seq, error) {
	it, err := r.put(ctx, c, true)
	if err != nil {
		return 0, err
	}
	if it.led {
		r.lead(ctx, it)
	}
	if err := r.await(ctx, it); err != nil {
		return 0, err
	}
	return it.seq, nil
}

// Say emits body with the base members of the run: its session, its agent type,
// the present time and step.
func (r *Run) Say(ctx context.Context, body chunk.Body) error {
	return r.Emit(ctx, r.chunk(body))
}

func (r *Run) chunk(body chunk.Body) chunk.Chunk {
	return chunk.Chunk{
		AgentID:   r.session.ID,
		AgentType: r.agentType,
		Timestamp: time.Now().UnixMilli(),
		Step:      r.step.Load(),
		Body:      body,
	}
}

// Flush sends what waits and returns when everything emitted before the call is
// stored, with the position of the last stored record. An error is that of an
// emitted chunk that was not stored, told once.
func (r *Run) Flush(ctx context.Context) (chunk.Position, error) {
	r.mu.Lock()
	it := r.newest()
	if it != nil {
		r.attend(it)
		r.kick()
	}
	r.mu.Unlock()
	if it != nil {
		select {
		case <-it.done:
		case <-ctx.Done():
			return r.Position(), fmt.Errorf("flush: %w", ctx.Err())
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pos, r.usable()
}

// newest is the last item that has no result yet.
func (r *Run) newest() *item {
	if t := r.queue.tail(); t != nil {
		return t
	}
	return r.flying
}

// attend makes sure that somebody can wait for it, and that it does not linger.
func (r *Run) attend(it *item) {
	it.urgent = true
	if it.done == nil {
		it.done = make(chan struct{})
	}
}

// put checks c and queues it, in one piece or, if it is a delta that is too
// long, in several that come and wait together.
func (r *Run) put(ctx context.Context, c chunk.Chunk, wait bool) (*item, error) {
	parts, err := r.prepare(c)
	if err != nil {
		return nil, r.notStored(c, err)
	}
	return r.admit(ctx, parts, wait)
}

// admit queues parts when there is room, and returns the item to wait for.
func (r *Run) admit(ctx context.Context, parts *item, wait bool) (*item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := r.refusal(parts.typ); err != nil {
			return nil, err
		}
		if it := r.enqueue(parts, wait); it != nil {
			return it, nil
		}
		if err := r.awaitSpace(ctx, parts.typ); err != nil {
			return nil, err
		}
	}
}

// enqueue merges or pushes, or returns nil when the queue is full.
func (r *Run) enqueue(it *item, wait bool) *item {
	merged := it.part == nil && r.queue.merge(it)
	if !merged {
		if r.queue.full() {
			return nil
		}
		r.queue.pushParts(it)
	}
	last := r.queue.tail()
	if wait && !merged && r.idle() {
		r.follow(last)
		return last
	}
	if wait {
		r.attend(last)
	} else {
		for p := it; p != nil; p = p.part {
			p.unheard = true
		}
		last.unheard = true
	}
	if !merged || last.urgent || last.size >= r.queue.maxDelta {
		r.kick()
	}
	return last
}

// awaitSpace waits, without the lock, until the queue may have room.
func (r *Run) awaitSpace(ctx context.Context, typ chunk.Type) error {
	if r.space == nil {
		r.space = make(chan struct{})
	}
	space := r.space
	r.queue.items[r.queue.head].urgent = true // who waits for room does not wait for a window
	r.kick()
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-space:
		return nil
	case <-ctx.Done():
		return &NotStoredError{Session: r.session, Type: typ, Cause: fmt.Errorf("the queue is full: %w", ctx.Err())}
	}
}

// await waits for the result of it and of the parts before it.
func (r *Run) await(ctx context.Context, it *item) error {
	if it.led {
		return it.err // there is nothing to wait for
	}
	select {
	case <-it.done:
	case <-ctx.Done():
		if r.leave(it) {
			return fmt.Errorf("%s is still queued: %w", it.typ, ctx.Err())
		}
	}
	for p := it; p != nil; p = p.part {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// leave makes the failure of it and its parts a thing to be told later. It
// reports false if the result is there already.
func (r *Run) leave(it *item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-it.done:
		return false
	default:
	}
	for p := it; p != nil; p = p.part {
		p.unheard = true
		if p.err != nil {
			r.lost.add(p.err)
		}
	}
	return true
}

// usable is why the run takes nothing any more, or what it has to tell first.
func (r *Run) usable() error {
	switch {
	case r.dead != nil:
		r.told = true
		return r.dead
	case r.closed:
		return &NotStoredError{Session: r.session, Cause: ErrClosed}
	}
	return r.lost.take()
}

// refusal is why a chunk is not taken now.
func (r *Run) refusal(typ chunk.Type) error {
	if err := r.usable(); err != nil {
		return err
	}
	switch r.heading() {
	case ended, failed:
		return &NotStoredError{Session: r.session, Type: typ, Cause: ErrEnded}
	case paused:
		return &NotStoredError{Session: r.session, Type: typ, Cause: ErrPaused}
	case active:
	}
	return nil
}

func (r *Run) notStored(c chunk.Chunk, cause error) error {
	e := &NotStoredError{Session: r.session, Cause: cause}
	if c.Body != nil {
		e.Type = c.Type()
	}
	return e
}

// Close ends the run's goroutine and frees the Run. It does not end the stream
// and flushes nothing: what waits is dropped. The error tells, unless a call
// has, that emitted chunks were dropped or not stored, or that the run was
// fenced. A second Close returns nil.
func (r *Run) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.abandon(&NotStoredError{Session: r.session, Cause: ErrClosed})
	r.mu.Unlock()

	r.cancel()
	r.pumping.Wait()
	if !first {
		return nil
	}
	r.log.close()
	if r.producer != nil {
		r.producer.forget(r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil && !r.told {
		r.told = true
		return r.dead
	}
	return r.lost.take()
}
