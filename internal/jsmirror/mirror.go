package jsmirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

var (
	// ErrBehind reports a mirror that lacks what home has, after a wait.
	ErrBehind = errors.New("mirror is behind its stream")

	// ErrOtherHistory reports a mirror of an earlier history of its stream.
	ErrOtherHistory = errors.New("the stream at home has another epoch than its mirror: run `tailrace mirror`")

	// errAhead reports a stream at home that ends before its mirror: a replica that lags has responded, or home has lost records.
	errAhead = errors.New("the stream at home ends before its mirror")
)

// awayError is the error of a request to home.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// mirror is one mirror. Its methods may be called concurrently.
type mirror struct {
	name        string
	local, home *jsclient.Client
	log         *slog.Logger
	timeouts    timeouts

	mu      sync.Mutex // guards the fields below
	history *history   // the present one, nil before the first response
	away    bool       // home did not respond, or the mirror has not caught up since it did
	lost    bool       // home did not respond to the last request
	failed  error      // of the last round
	next    *round     // begins when the running one has ended
	running bool
}

// history is what is known about one history of a mirror.
type history struct {
	epoch     string
	created   time.Time // of the mirror, which may be created again with the same epoch
	confirmed uint64    // the mirror had everything up to here while home had the same epoch
	complete  bool      // the mirror had everything that home had at some time
	other     bool      // home has another epoch
	removals  bool      // the mirror may have messages that were removed at home

	ended chan struct{} // closed by end when the mirror is created again, or home has another epoch
	end   func()
}

// round is one comparison of a mirror and its stream, for all that have waited for it.
type round struct {
	done chan struct{}
	err  error
}

// timeouts bound what a mirror waits for.
type timeouts struct {
	request time.Duration // a request to home; a connection that is lost without notice does not respond
	catchUp time.Duration // a read, until the mirror has what home has
}

var defaultTimeouts = timeouts{request: 2 * time.Second, catchUp: 5 * time.Second}

var pollBackoff = wait.Backoff{First: 5 * time.Millisecond, Max: 200 * time.Millisecond}

// state returns the state of the mirror, and of its present history.
func (m *mirror) state(ctx context.Context) (jsclient.State, *history, error) {
	s, err := jsclient.Retry(ctx, m.local.Reading(m.timeouts.catchUp), func(ctx context.Context) (jsclient.State, error) { return m.local.State(ctx, m.name, "") })
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		m.endHistory()
		return s, nil, fmt.Errorf("mirror %s: %w", m.name, err)
	case err != nil:
		return s, nil, fmt.Errorf("mirror %s: %w", m.name, err)
	}
	if m.history == nil || m.history.epoch != s.Epoch || !m.history.created.Equal(s.Created) {
		m.endHistory()
		m.history = &history{epoch: s.Epoch, created: s.Created}
		ended := make(chan struct{})
		m.history.ended, m.history.end = ended, sync.OnceFunc(func() { close(ended) })
	}
	return s, m.history, nil
}

// hasEnded reports whether end was called.
func (h *history) hasEnded() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// endHistory forgets the present history. The caller holds the lock.
func (m *mirror) endHistory() {
	if m.history != nil {
		m.history.end()
		m.history = nil
	}
}

// confirm compares the mirror with its stream once, and returns the end of the stream. What the mirror had before home responded is of the epoch that
// home reports: an epoch does not return.
func (m *mirror) confirm(ctx context.Context) (end uint64, h *history, err error) {
	have, h, err := m.state(ctx)
	if err != nil {
		return 0, nil, err
	}
	asking, cancel := context.WithTimeout(ctx, m.timeouts.request)
	defer cancel()
	origin, err := m.home.State(asking, m.name, "")
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return 0, h, err // the caller has left: that says nothing about home
	}
	m.lost = err != nil
	switch {
	case err != nil:
		if !m.away {
			m.log.Warn("home not reachable", "stream", m.name, "error", err)
		}
		m.away = true
		return 0, h, awayError{fmt.Errorf("stream %s at home: %w", m.name, err)}
	case origin.Epoch != have.Epoch:
		if !h.other {
			m.log.Error("mirror of an earlier history", "stream", m.name, "epoch", have.Epoch, "home", origin.Epoch)
		}
		h.other = true
		h.end()
		return 0, h, fmt.Errorf("mirror %s: %w", m.name, ErrOtherHistory)
	case origin.Last < have.Last:
		return 0, h, fmt.Errorf("mirror %s: %w: %d, want %d", m.name, errAhead, origin.Last, have.Last)
	}
	h.confirmed = max(h.confirmed, have.Last)
	h.removals = mayHaveRemoved(have, origin)
	return origin.Last, h, nil
}

// mayHaveRemoved reports whether the mirror may have messages that were removed at home. Home has one message at most for each sequence after the end of the mirror. If
// it has as many before that as the mirror, and the mirror has all that home has there, nothing was removed.
func mayHaveRemoved(have, origin jsclient.State) bool {
	return have.First > origin.First || have.Messages+(origin.Last-have.Last) > origin.Messages
}

// confirmThrough waits until everything up to a sequence, which the mirror has, is confirmed in a history.
func (m *mirror) confirmThrough(ctx context.Context, h *history, seq uint64) error {
	for n := 1; ; n++ {
		if m.confirmed(h) >= seq {
			return nil
		}
		_, present, err := m.confirm(ctx)
		switch {
		case errors.Is(err, ErrOtherHistory), err == nil && present != h:
			return ErrOtherHistory
		case err == nil:
			continue
		}
		if err := wait.Sleep(ctx, jsclient.ReadBackoff.Delay(n)); err != nil {
			return err
		}
	}
}

func (m *mirror) confirmed(h *history) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return h.confirmed
}

// sync waits until the mirror has everything that home had when sync was called, and that is confirmed. While home cannot be reached, it returns at once with
// stale set. Callers that wait at the same time share a round.
func (m *mirror) sync(ctx context.Context) (h *history, stale bool, err error) {
	m.mu.Lock()
	if h := m.history; m.away && h != nil && h.complete && !h.other {
		m.mu.Unlock()
		return h, true, nil
	}
	r := m.join()
	m.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch h := m.history; {
	case r.err == nil && h != nil:
		return h, false, nil
	case isAway(r.err) && h != nil && h.complete && !h.other:
		return h, true, nil
	}
	return nil, false, r.err
}

func isAway(err error) bool {
	_, away := errors.AsType[awayError](err)
	return away
}

// join returns the round that begins next. The caller holds the lock.
func (m *mirror) join() *round {
	if m.next == nil {
		m.next = &round{done: make(chan struct{})}
	}
	if !m.running {
		m.running = true
		go m.work()
	}
	return m.next
}

// work runs rounds until none has been asked for.
func (m *mirror) work() {
	for {
		m.mu.Lock()
		r := m.next
		m.next = nil
		m.running = r != nil
		m.mu.Unlock()
		if r == nil {
			return
		}
		r.err = m.catchUp()
		m.mu.Lock()
		m.failed = r.err
		m.mu.Unlock()
		close(r.done)
	}
}

// catchUp is one round.
func (m *mirror) catchUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.timeouts.catchUp)
	defer cancel()
	end, h, err := m.confirm(ctx)
	for n := 1; errors.Is(err, errAhead) && wait.Sleep(ctx, pollBackoff.Delay(n)) == nil; n++ {
		end, h, err = m.confirm(ctx) // a replica at home may be ahead of the leader for a moment
	}
	if err != nil {
		return err
	}
	if m.confirmed(h) < end {
		if err := m.await(ctx, end); err != nil {
			return err
		}
		_, present, err := m.confirm(ctx)
		switch {
		case err != nil:
			return err
		case present != h:
			return fmt.Errorf("mirror %s: %w: it was created again", m.name, ErrBehind)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		m.log.Info("home reachable, mirror complete", "stream", m.name)
	}
	h.complete, m.away = true, false
	return nil
}

// await waits until the mirror has everything up to the end of its stream. The last messages of a stream may have been deleted before the mirror got them: then
// the mirror ends before its stream until there is another message, and home is asked whether there is one.
func (m *mirror) await(ctx context.Context, end uint64) error {
	const polls = 6 // between two questions to home
	for n := 1; ; n++ {
		have, _, err := m.state(ctx)
		switch {
		case err == nil && have.Last >= end:
			return nil
		case err == nil && n%polls == 0:
			next, err := m.home.Next(ctx, m.name, ">", have.Last+1)
			if errors.Is(err, jsclient.ErrNotFound) || err == nil && next.Seq > end {
				return nil
			}
		}
		if wait.Sleep(ctx, pollBackoff.Delay(n)) != nil {
			return fmt.Errorf("mirror %s: %w: it ends at %d, want %d", m.name, ErrBehind, have.Last, end)
		}
	}
}

// usable returns why the mirror cannot be read, nil if it can.
func (m *mirror) usable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch h := m.history; {
	case h != nil && h.other:
		return fmt.Errorf("mirror %s: %w", m.name, ErrOtherHistory)
	case (h == nil || !h.complete) && m.failed != nil:
		return m.failed
	case h == nil || !h.complete:
		return fmt.Errorf("mirror %s: %w: it was not compared with home yet", m.name, ErrBehind)
	}
	return nil
}

// mayHaveRemoved reports what the last comparison says, false while home is lost.
func (m *mirror) mayHaveRemoved() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history != nil && m.history.removals && !m.lost
}

func (m *mirror) isLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}
