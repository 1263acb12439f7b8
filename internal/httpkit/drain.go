package httpkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrDrained is the cause of the context of a stream that Drain.Begin closes.
var ErrDrained = errors.New("edge draining")

// Drain holds the open streams of a surface, so that they can be closed. The zero Drain is ready for use, by any number of goroutines.
type Drain struct {
	mu       sync.Mutex // guards the fields below
	draining bool
	cancels  map[*entry]context.CancelCauseFunc
	empty    chan struct{} // closed when draining and the last stream has left
}

type entry struct{ _ byte } // pointers to different entries must differ

// Enter registers a stream. The context ends with ErrDrained when the stream must close; leave must then be called, or when it ends otherwise. Once
// draining has begun, ok is false.
func (d *Drain) Enter(ctx context.Context) (_ context.Context, leave func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return nil, nil, false
	}
	if d.cancels == nil {
		d.cancels, d.empty = make(map[*entry]context.CancelCauseFunc), make(chan struct{})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	e := new(entry)
	d.cancels[e] = cancel
	return ctx, func() { d.leave(e, cancel) }, true
}

func (d *Drain) leave(e *entry, cancel context.CancelCauseFunc) {
	cancel(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, open := d.cancels[e]; !open {
		return
	}
	delete(d.cancels, e)
	if d.draining && len(d.cancels) == 0 {
		close(d.empty)
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
	return len(d.cancels)
}

// Begin rejects new streams and closes the open ones in random order, evenly over spread or half of the time until the deadline of ctx, so that the
// other edges do not get all clients at once. It returns when the last stream has left. When ctx ends first, Begin closes the remaining streams at once
// and returns an error with the number of those that have not left.
func (d *Drain) Begin(ctx context.Context, spread time.Duration) error {
	cancels := d.start()
	closeGradually(ctx, cancels, spread)
	for {
		d.mu.Lock()
		n, empty := len(d.cancels), d.empty
		d.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-empty:
		case <-ctx.Done():
			if n = d.Len(); n == 0 {
				return nil
			}
			return fmt.Errorf("%d streams still open: %w", n, context.Cause(ctx))
		}
	}
}

func (d *Drain) start() []context.CancelCauseFunc {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draining = true
	cancels := make([]context.CancelCauseFunc, 0, len(d.cancels))
	for _, cancel := range d.cancels {
		cancels = append(cancels, cancel)
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
