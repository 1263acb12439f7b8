package producers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// Run is the writer of one run of a session. Its methods may be called concurrently: the chunks of one goroutine keep their order, and all readers see the
// same order.
//
// A Run has at most one goroutine, which runs while records are queued; an idle Run takes two kilobytes. Close releases it.
type Run struct {
	session   chunk.Session
	epoch     chunk.Epoch
	continues chunk.Epoch // of a Run of Continue its epoch, otherwise 0
	runID     string
	agentType atomic.Pointer[string] // see SetAgentType
	announced chunk.SubagentStart    // the record of this run in the session of the parent; zero without a parent
	trace     string                 // see TraceParent

	cfg      Config
	log      sessionLog
	slog     *slog.Logger
	producer *Producer
	step     atomic.Int64
	input    atomic.Pointer[input] // of later records, see SetInput; nil for none

	ctx     context.Context //nolint:containedctx // the lifetime of the pump, which exceeds that of a call
	cancel  context.CancelFunc
	pumping sync.WaitGroup
	wake    chan struct{} // wakes a pump that waits for the pace

	cleaning chan struct{} // holds a token while a cleanup is in progress

	valueBytes     atomic.Int64 // of the large values of this run
	sessionBytes   int64        // of the last stored record, see chunk.Record; used by the publishing goroutine only
	pendingDeletes []chunk.Seq  // deletes of a stored truncation record; used by the pump only

	mu                sync.Mutex     // guards everything below and the items in queue
	queue             queue          // not sent yet
	inFlight          *item          // the last of those that are being published, nil for none
	running           bool           // the pump runs
	pacing            bool           // the pump waits until a delta is due
	pendingTransition *item          // the change of state that is queued or in flight
	state             state          // according to the log
	pos               chunk.Position // last stored record
	storedInput       codec.InputPosition
	number            uint64 // of the last message
	stats             stats
	unreported        lostChunks // emitted chunks that were not stored and not reported yet
	fatal             error      // fenced or unknown outcome
	fatalReported     bool       // a call has returned fatal
	closed            bool
	spaceFreed        chan struct{} // closed when the queue is no longer full; nil if no call waits for it
}

// lostChunks counts chunks that later calls report as not stored.
type lostChunks struct {
	count int
	first error
}

func (l *lostChunks) add(err error) {
	if l.count == 0 {
		l.first = err
	}
	l.count++
}

// take returns the error to report, once.
func (l *lostChunks) take() error {
	if l.count == 0 {
		return nil
	}
	err := fmt.Errorf("%d queued chunks not stored, first error: %w", l.count, l.first)
	if l.count == 1 {
		err = fmt.Errorf("queued chunk: %w", l.first)
	}
	*l = lostChunks{}
	return err
}

// Session returns the session of the run.
func (r *Run) Session() chunk.Session { return r.session }

// Epoch returns the fencing epoch of the run: the log accepts no record of the run after a run with a higher epoch has started.
func (r *Run) Epoch() chunk.Epoch { return r.epoch }

// ID returns the id of the run, which its run_started record contains.
func (r *Run) ID() string { return r.runID }

// Position returns the position of the last stored record of the run.
func (r *Run) Position() chunk.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pos
}

// SetStep sets the step of later chunks of EmitBody and of later records of the run itself. It starts at 0.
func (r *Run) SetStep(n int64) { r.step.Store(n) }

// SetAgentType sets the agent type of later chunks of EmitBody and of later records of the run itself: another agent has taken over its work. "" changes nothing.
func (r *Run) SetAgentType(name string) {
	if name != "" && name != *r.agentType.Load() {
		r.agentType.Store(&name)
	}
}

// Emit queues c after all chunks that were emitted before. A nil error means queued, not stored. Emit blocks while the queue is full; if ctx ends first, c
// is not queued.
//
// Emit fills in empty base members: AgentID with the id of the session, the only valid value, AgentType with that of the run, and Timestamp with the present
// time. A chunk that violates the schema is rejected with chunk.ErrInvalid, and one larger than Config.MaxChunk with chunk.ErrTooLarge; a delta that is too
// large is split.
//
// If a chunk that was emitted before could not be stored, Emit returns that error, once, and does not queue c. The caller decides whether to continue.
func (r *Run) Emit(ctx context.Context, c chunk.Chunk) error {
	_, err := r.put(ctx, c, false)
	return err
}

// Write emits c and blocks until it is stored. A nil error means that the log has c at the returned sequence. Queued deltas are sent without delay. A delta
// that was merged or split has the sequence of the record with its end.
//
// If ctx ends first, Write returns the error of ctx; c stays queued, and if it fails, the next call returns the error.
func (r *Run) Write(ctx context.Context, c chunk.Chunk) (chunk.Seq, error) {
	it, err := r.put(ctx, c, true)
	if err != nil {
		return 0, err
	}
	if it.inline {
		r.publishInline(ctx, it)
	}
	if err := r.await(ctx, it); err != nil {
		return 0, err
	}
	return it.seq, nil
}

// EmitBody emits body with the base members of the run: session, agent type, present time and step.
func (r *Run) EmitBody(ctx context.Context, body chunk.Body) error {
	return r.Emit(ctx, r.chunk(body))
}

func (r *Run) chunk(body chunk.Body) chunk.Chunk {
	return chunk.Chunk{
		AgentID:   r.session.ID,
		AgentType: *r.agentType.Load(),
		Timestamp: time.Now().UnixMilli(),
		Step:      r.step.Load(),
		Body:      body,
	}
}

// Flush sends the queued records and blocks until all chunks emitted before the call are stored. It returns the position of the last stored record. The
// error is that of an emitted chunk that was not stored; it is returned once.
func (r *Run) Flush(ctx context.Context) (chunk.Position, error) {
	r.mu.Lock()
	it := r.newest()
	if it != nil {
		r.expedite(it)
		r.wakePump()
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
	return r.pos, r.pendingError()
}

// newest returns the last item without a result.
func (r *Run) newest() *item {
	if t := r.queue.tail(); t != nil {
		return t
	}
	return r.inFlight
}

// expedite lets a caller wait for it, and makes it due at once.
func (r *Run) expedite(it *item) {
	it.urgent = true
	if it.done == nil {
		it.done = make(chan struct{})
	}
}

// put checks c and queues it. A delta that is too large is queued in several parts.
func (r *Run) put(ctx context.Context, c chunk.Chunk, wait bool) (*item, error) {
	parts, err := r.prepare(ctx, c)
	if err != nil {
		return nil, r.notStored(c, err)
	}
	return r.enqueueOrWait(ctx, parts, wait)
}

// enqueueOrWait queues parts as soon as the queue is not full, and returns the item to wait for.
func (r *Run) enqueueOrWait(ctx context.Context, parts *item, wait bool) (*item, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if err := r.rejectReason(parts.typ); err != nil {
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

// enqueue merges or pushes the item. It returns nil if the queue is full.
func (r *Run) enqueue(it *item, wait bool) *item {
	merged := it.prevPart == nil && r.queue.merge(it)
	if !merged {
		if r.queue.full() {
			return nil
		}
		r.queue.pushParts(it)
	}
	last := r.queue.tail()
	if wait && !merged && r.idle() {
		r.claimInline(last)
		return last
	}
	if wait {
		r.expedite(last)
	} else {
		for p := it; p != nil; p = p.prevPart {
			p.reportLater = true
		}
		last.reportLater = true
	}
	if !merged || last.urgent || last.size >= r.queue.maxDelta {
		r.wakePump()
	}
	return last
}

// awaitSpace blocks, without the lock, until the queue may be no longer full.
func (r *Run) awaitSpace(ctx context.Context, typ chunk.Type) error {
	if r.spaceFreed == nil {
		r.spaceFreed = make(chan struct{})
	}
	space := r.spaceFreed
	r.queue.items[r.queue.head].urgent = true // a full queue must not wait for the pace
	r.wakePump()
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-space:
		return nil
	case <-ctx.Done():
		return &notStoredError{Session: r.session, Type: typ, Cause: fmt.Errorf("queue full: %w", ctx.Err())}
	}
}

// await blocks until it and the parts before it have a result.
func (r *Run) await(ctx context.Context, it *item) error {
	if it.inline {
		return it.err // has a result already
	}
	select {
	case <-it.done:
	case <-ctx.Done():
		if r.reportLater(it) {
			return fmt.Errorf("%s still queued: %w", it.typ, ctx.Err())
		}
	}
	for p := it; p != nil; p = p.prevPart {
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// reportLater lets a later call report the failure of it and its parts. It returns false if it has a result already.
func (r *Run) reportLater(it *item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-it.done:
		return false
	default:
	}
	for p := it; p != nil; p = p.prevPart {
		p.reportLater = true
		if p.err != nil {
			r.unreported.add(p.err)
		}
	}
	return true
}

// pendingError returns the error that ended the run, or the error to report first.
func (r *Run) pendingError() error {
	switch {
	case r.fatal != nil:
		r.fatalReported = true
		return r.fatal
	case r.closed:
		return &notStoredError{Session: r.session, Cause: ErrClosed}
	}
	return r.unreported.take()
}

// rejectReason returns the reason for which a chunk is rejected, or nil.
func (r *Run) rejectReason(typ chunk.Type) error {
	if err := r.pendingError(); err != nil {
		return err
	}
	switch r.nextState() {
	case ended, failed:
		return &notStoredError{Session: r.session, Type: typ, Cause: ErrEnded}
	case paused:
		return &notStoredError{Session: r.session, Type: typ, Cause: ErrPaused}
	case active:
	}
	return nil
}

func (r *Run) notStored(c chunk.Chunk, cause error) error {
	e := &notStoredError{Session: r.session, Cause: cause}
	if c.Body != nil {
		e.Type = c.Type()
	}
	return e
}

// Close ends the goroutine of the Run and releases its resources. It does not end the stream, and it drops queued records. The error reports that emitted
// chunks were dropped or not stored, or that the run was fenced, unless another call has returned that error. A second Close returns nil.
func (r *Run) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.failQueued(&notStoredError{Session: r.session, Cause: ErrClosed})
	r.mu.Unlock()

	r.cancel()
	r.pumping.Wait()
	if !first {
		return nil
	}
	r.log.close()
	if r.producer != nil {
		r.producer.removeRun(r)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal != nil && !r.fatalReported {
		r.fatalReported = true
		return r.fatal
	}
	return r.unreported.take()
}
