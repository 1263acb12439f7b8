package producers

import "context"

// Who writes into an idle run waits for nothing but its own record. Waking the
// pump, and being woken by it, would cost a tenth of the publish itself; so the
// goroutine that waits does the pump's work for this one record. It can stop
// waiting, and it must not wait out trouble for others: anything but an answer
// at the first attempt is left to the pump, which goes on where it stopped.

// idle reports whether the item just pushed is all there is to do.
func (r *Run) idle() bool {
	return !r.running && r.queue.waiting() == 1 && len(r.owed) == 0
}

// follow takes the only item for the caller to lead. The lock is held.
func (r *Run) follow(it *item) {
	it.urgent, it.led = true, true
	r.queue.take(it.at)
	r.flying = it
	r.running = true
	r.pumping.Add(1)
}

// lead stores it, or leaves it to the pump and is then not led any more.
func (r *Run) lead(ctx context.Context, it *item) {
	defer r.pumping.Done()
	s, err := r.ready(it)
	if err != nil {
		r.finish(it, 0, err)
		r.passOn()
		return
	}
	seq, decided, err := s.attempt(r.ctx, ctx.Done())
	if !decided {
		r.mu.Lock()
		it.led = false
		r.attend(it)
		r.mu.Unlock()
		r.pumping.Go(func() {
			seq, err := s.run(r.ctx)
			seq, err = r.conclude(it, seq, err)
			r.finish(it, seq, err)
			r.pump()
		})
		return
	}
	seq, err = r.conclude(it, seq, err)
	r.finish(it, seq, err)
	r.passOn()
}

// passOn leaves what came meanwhile to the pump.
func (r *Run) passOn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
	r.kick()
}
