package projector

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// The loop of a Runner decides which sessions are processed, and waits for none of them. Each attempt to process a session runs
// in a goroutine of its own, at most one for a session and at most Parallel together. Deliveries that arrive meanwhile wait in
// the inbox of their session.

// sessionState is what a session is doing. It belongs to the loop.
type sessionState int

const (
	idle    sessionState = iota
	ready                // in Runner.ready
	running              // an attempt owns the fields of the session that the loop does not own
)

// accept puts the deliveries of a batch into the inboxes of their sessions.
func (r *Runner) accept(ctx context.Context, batch []Delivery) {
	r.stats.delivered.Add(uint64(len(batch)))
	var received []*session
	for _, d := range batch {
		s := r.session(d.Record.Session)
		if len(s.inbox) == 0 {
			received = append(received, s)
		}
		s.enqueue(d)
		r.countUnacked(s)
	}
	for _, s := range received {
		r.schedule(ctx, s)
	}
	if r.budget.inboxesFull() {
		r.shrinkInboxes(batch)
	}
	if r.unacked > r.cfg.MaxUnsaved {
		for _, s := range r.sessions {
			r.flush(ctx, s)
		}
	}
	r.evict(ctx, true)
}

// shrinkInboxes keeps the first and the last delivery of the sessions of a batch that wait for an attempt.
func (r *Runner) shrinkInboxes(batch []Delivery) {
	for _, d := range batch {
		if s := r.sessions[d.Record.Session]; len(s.inbox) > 2 {
			s.shrinkInbox()
			r.countUnacked(s)
		}
	}
}

// schedule starts an attempt for an idle session, now or when one of Parallel attempts ends. A session that failed waits for its
// retry: scheduleDue starts it.
func (r *Runner) schedule(ctx context.Context, s *session) {
	if s.state != idle || s.backsOff() {
		return
	}
	s.state = ready
	r.ready = append(r.ready, s)
	r.startReady(ctx)
}

// flush schedules an attempt that saves the session even if no save is due.
func (r *Runner) flush(ctx context.Context, s *session) {
	if s.counted > 0 {
		s.flush = true
		r.schedule(ctx, s)
	}
}

// scheduleDue schedules the idle sessions whose save or retry is due, and returns the time until the next call.
func (r *Runner) scheduleDue(ctx context.Context) time.Duration {
	next := r.cfg.SaveAfter
	for _, s := range r.sessions {
		if s.state != idle {
			continue
		}
		if wait, pending := s.wait(); pending && wait <= 0 {
			r.schedule(ctx, s)
		} else if pending {
			next = min(next, wait)
		}
	}
	return max(next, time.Millisecond)
}

func (r *Runner) startReady(ctx context.Context) {
	for r.running < r.cfg.Parallel {
		next := slices.IndexFunc(r.ready, (*session).take)
		if next < 0 {
			return
		}
		s := r.ready[next]
		r.ready = slices.Delete(r.ready, next, next+1)
		s.state = running
		r.running++
		inbox, flush := s.takeInbox()
		go func() {
			r.attempt(ctx, s, inbox, flush)
			r.done <- s
		}()
	}
}

// take reports whether the memory for an attempt is free, and takes it: the memory of the fold, and the size of the records that are not in it. It is
// an upper bound for a session that is not in memory, whose stored head may be small, and lacks records of builds that have not counted them.
//
// Without it 64 sessions at their limit of bytes are loaded and saved at the same time, and are evicted only then.
func (s *session) take() (ok bool) {
	s.large, ok = s.budget.takeLarge(s.memoryBytes + int(s.bytes-s.foldedThrough))
	return ok
}

// attempt processes one session. If that fails, the next attempt loads the session again, and its deliveries stay
// unacknowledged.
func (r *Runner) attempt(ctx context.Context, s *session, inbox []Delivery, flush bool) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	// Each folded record resets the timeout. Otherwise a session of a million records would exceed it and restart at its first
	// record indefinitely.
	stall := time.AfterFunc(r.cfg.StallTimeout, cancel)
	defer stall.Stop()
	s.fold.stepped = func() { stall.Reset(r.cfg.StallTimeout) }
	err := s.process(bounded, inbox, flush)
	if err == nil {
		s.failures = 0
		return
	}
	s.fail()
	if ctx.Err() == nil {
		r.stats.failures.Add(1)
		r.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "session projection failed",
			slog.String("session", s.id.String()), slog.Int("failures", s.failures), slog.Any("error", err))
	}
}

// attemptEnded gives the session back to the loop. A session that has got deliveries meanwhile goes to the end of the queue.
func (r *Runner) attemptEnded(ctx context.Context, s *session) {
	s.state = idle
	r.running--
	r.budget.ownLarge.add(-s.large)
	s.taken = len(s.unacked)
	s.boundInbox()
	s.takenBytes = 0
	r.countUnacked(s)
	r.updateMemory(s)
	if len(s.inbox) > 0 || s.flush && s.taken > 0 {
		r.schedule(ctx, s)
	}
	r.startReady(ctx)
	r.evict(ctx, true)
}

// finish saves all sessions once more, for at most StallTimeout.
func (r *Runner) finish(ctx context.Context, cancel context.CancelFunc) {
	limit := time.AfterFunc(r.cfg.StallTimeout, cancel)
	defer limit.Stop()
	for _, s := range r.sessions {
		if s.state == idle {
			s.retryAt = time.Time{} // one attempt more, also for a session that waits for its retry
		}
		r.flush(ctx, s)
	}
	for r.running > 0 {
		r.attemptEnded(ctx, <-r.done)
	}
}

// session returns the cached session and marks it as the most recently used one.
func (r *Runner) session(id chunk.Session) *session {
	if s := r.sessions[id]; s != nil {
		r.recent.MoveToFront(s.element)
		return s
	}
	s := &session{Runner: r, id: id}
	s.fold = applier{log: r.log, skipped: s.addDeadLetter, applied: r.cfg.Observe.Applied}
	s.element = r.recent.PushFront(s)
	r.sessions[id] = s
	r.budget.ownSessions.add(1)
	return s
}

// countUnacked updates the sums of the unacknowledged deliveries, and of the bytes of those that are not processed.
func (r *Runner) countUnacked(s *session) {
	now, bytes := s.taken+len(s.inbox), s.takenBytes+s.inboxBytes
	r.unacked += now - s.counted
	r.budget.ownInboxes.add(bytes - s.countedBytes)
	s.counted, s.countedBytes = now, bytes
}

func (r *Runner) updateMemory(s *session) {
	before := s.memoryBytes
	s.memoryBytes, s.foldedThrough = 0, 0
	if s.loaded {
		s.memoryBytes, s.foldedThrough = s.folder.MemoryBytes(), s.takenThrough
	}
	r.budget.ownMemory.add(s.memoryBytes - before)
}

// evict removes the least recently used sessions while there are too many. A session with unacknowledged deliveries is saved
// first, and removed when its attempt has ended. If other Runners have to evict too, they are notified, unless one of them has
// notified this one: they would notify each other until their attempts have ended.
func (r *Runner) evict(ctx context.Context, wakeOthers bool) {
	sessions, memory := r.budget.excess(wakeOthers)
	for e := r.recent.Back(); e != nil && (sessions > 0 || memory > 0); {
		s, _ := e.Value.(*session)
		e = e.Prev()
		if s.state == idle && s.counted == 0 {
			r.budget.ownMemory.add(-s.memoryBytes)
			r.budget.ownSessions.add(-1)
			r.recent.Remove(s.element)
			delete(r.sessions, s.id)
		} else if !s.flush {
			r.flush(ctx, s)
		}
		sessions--
		memory -= s.memoryBytes
	}
}
