package httpkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
)

// ErrDrained is the cause of the context of a stream that Drain.Begin closes.
var ErrDrained = errors.New("edge draining")

// ErrRevoked is the cause of the context of a stream that Drain.CloseRevoked closes.
var ErrRevoked = errors.New("credential revoked")

// Drain holds the open streams of a surface, so that they can be closed. The zero Drain is ready for use, by any number of goroutines.
type Drain struct {
	// Revocations are those of the credentials of the streams. It is set before the first use; nil is none.
	Revocations *authn.Revocations

	mu       sync.Mutex // guards the fields below
	draining bool
	open     map[*entry]struct{}
	empty    chan struct{} // closed when draining and the last stream has left
}

// entry is an open stream.
type entry struct {
	cancel context.CancelCauseFunc
	grant  *auth.Grant // nil without one
}

// Enter registers a stream. The context ends with ErrDrained or ErrRevoked when the stream must close; leave must then be called, or when it ends otherwise.
// Once draining has begun, ok is false.
func (d *Drain) Enter(ctx context.Context) (_ context.Context, leave func(), ok bool) {
	e := new(entry)
	e.grant, _ = authn.FromContext(ctx)
	if ctx, ok = d.enter(ctx, e); !ok {
		return nil, nil, false
	}
	// A revocation that CloseRevoked has looked for before this stream was in the map is found here.
	if e.grant != nil && d.Revocations.Revoked(e.grant) {
		e.cancel(ErrRevoked)
	}
	return ctx, func() { d.leave(e) }, true
}

func (d *Drain) enter(ctx context.Context, e *entry) (context.Context, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return nil, false
	}
	if d.open == nil {
		d.open, d.empty = make(map[*entry]struct{}), make(chan struct{})
	}
	ctx, e.cancel = context.WithCancelCause(ctx)
	d.open[e] = struct{}{}
	return ctx, true
}

func (d *Drain) leave(e *entry) {
	e.cancel(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.open[e]; !open {
		return
	}
	delete(d.open, e)
	if d.draining && len(d.open) == 0 {
		close(d.empty)
	}
}

// CloseRevoked closes the streams whose credentials are revoked.
func (d *Drain) CloseRevoked() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for e := range d.open {
		if e.grant != nil && d.Revocations.Revoked(e.grant) {
			e.cancel(ErrRevoked)
		}
	}
}

// Draining reports whether Begin was called.
func (d *Drain) Draining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}

// Len returns the number of open streams.
func (d *Drain) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// Begin rejects new streams and closes the open ones in random order, evenly over spread or half of the time until the deadline of ctx, so that the
// other edges do not get all clients at once. It returns when the last stream has left. When ctx ends first, Begin closes the remaining streams at once
// and returns an error with the number of those that have not left.
func (d *Drain) Begin(ctx context.Context, spread time.Duration) error {
	cancels := d.start()
	closeGradually(ctx, cancels, spread)
	if d.Len() == 0 {
		return nil
	}
	select {
	case <-d.empty: // no stream enters any more
	case <-ctx.Done():
		if n := d.Len(); n > 0 {
			return fmt.Errorf("%d streams still open: %w", n, context.Cause(ctx))
		}
	}
	return nil
}

func (d *Drain) start() []context.CancelCauseFunc {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draining = true
	cancels := make([]context.CancelCauseFunc, 0, len(d.open))
	for e := range d.open {
		cancels = append(cancels, e.cancel)
	}
	return cancels
}

func closeGradually(ctx context.Context, cancels []context.CancelCauseFunc, spread time.Duration) {
	rand.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
	began := time.Now()
	if deadline, limited := ctx.Deadline(); limited {
		spread = min(spread, time.Until(deadline)/2)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, cancel := range cancels {
		timer.Reset(time.Until(began.Add(spread * time.Duration(i) / time.Duration(len(cancels)))))
		select {
		case <-timer.C:
		case <-ctx.Done(): // no time left: close all others now
		}
		cancel(ErrDrained)
	}
}
