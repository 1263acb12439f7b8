package producers

import (
	"context"
	"time"
)

// If the run is idle, Write publishes on the caller's goroutine: a hand-over to the pump and back would add about 10 % to the cost of a publish. The caller
// makes one attempt only, because its context may end and because it must not retry for other callers. Without an answer the pump repeats the message.

// idle reports whether the item that was just pushed is the only work.
func (r *Run) idle() bool {
	return !r.running && r.queue.waiting() == 1 && len(r.pendingDeletes) == 0
}

// claimInline takes the only item, for the caller to publish. The lock is held.
func (r *Run) claimInline(it *item) {
	it.urgent, it.inline = true, true
	r.queue.take(time.Now())
	r.inFlight = it
	r.running = true
	r.pumping.Add(1)
}

// publishInline stores it, or hands it to the pump, which resets it.inline.
func (r *Run) publishInline(ctx context.Context, it *item) {
	defer r.pumping.Done()
	items := []*item{it}
	s, err := r.ready(it)
	if err != nil {
		r.finish(items, 0, err)
		r.handOff()
		return
	}
	seq, decided, err := s.attempt(r.ctx, ctx.Done())
	if !decided {
		r.mu.Lock()
		it.inline = false
		r.expedite(it)
		r.mu.Unlock()
		r.pumping.Go(func() {
			seq, err := s.run(r.ctx)
			seq, err = r.onStored(items, s, seq, err)
			r.finish(items, seq, err)
			r.pump()
		})
		return
	}
	seq, err = r.onStored(items, s, seq, err)
	r.finish(items, seq, err)
	r.handOff()
}

// handOff hands the items that were queued meanwhile to the pump.
func (r *Run) handOff() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	r.wakePump()
}
