// Package flight lets callers that need the same thing at the same time share the work.
//
//	page, leave, err := group.Hold(ctx, key, 0, load)
//	defer leave()
//
// golang.org/x/sync/singleflight has keys that are strings, and its work continues when no caller is left. A wrapper would need this table and these counts beside it.
package flight

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/tailrace/tailrace/chunk"
)

// Group shares work between callers with an equal key. The zero Group is ready for use, also by several goroutines.
type Group[K comparable, V any] struct {
	mu      sync.Mutex // guards calls, and reached, begun and callers of every call
	calls   map[K]*call[V]
	running sync.WaitGroup
}

type call[V any] struct {
	reached chunk.Seq // the log has reached it when the work begins
	begun   bool
	callers int
	cancel  context.CancelFunc

	done   chan struct{} // closed when the fields below are set
	result V
	err    error
}

// errNoResult reports work that ended its goroutine.
var errNoResult = errors.New("work without a result")

// PanicError is the error of work that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// Do returns the result of work that began when the log had reached a position, which the caller has seen: of its own work, or of that of another caller with an
// equal key. The work has a goroutine, and the values of the context of its first caller; it is cancelled when the contexts of all its callers have ended.
// Without the position,
//  1. client A reads the open turn, and its read has taken the last record of the log,
//  2. a turn begins; client B, which has a record of it from another edge, connects,
//  3. B would get the turn before its own.
//
// B waits until the read of A has ended, and shares the next one with all that wait then.
func (g *Group[K, V]) Do(ctx context.Context, key K, reached chunk.Seq, work func(context.Context) (V, error)) (V, error) {
	result, leave, err := g.Hold(ctx, key, reached, work)
	leave()
	return result, err
}

// Hold is like Do, for a result with resources: its caller calls leave, also after an error, and the context of the work ends when the last one has done so.
func (g *Group[K, V]) Hold(ctx context.Context, key K, reached chunk.Seq, work func(context.Context) (V, error)) (result V, leave func(), err error) {
	c := g.join(ctx, key, reached, work)
	leave = func() { g.leave(key, c) }
	select {
	case <-c.done:
		return c.result, leave, c.err
	case <-ctx.Done():
		return result, leave, context.Cause(ctx)
	}
}

func (g *Group[K, V]) join(ctx context.Context, key K, reached chunk.Seq, work func(context.Context) (V, error)) *call[V] {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.calls[key]
	if before != nil && (!before.begun || reached <= before.reached) {
		before.reached = max(before.reached, reached)
		before.callers++
		return before
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // the last caller that leaves calls cancel
	c := &call[V]{reached: reached, callers: 1, cancel: cancel, done: make(chan struct{}), err: errNoResult}
	if g.calls == nil {
		g.calls = make(map[K]*call[V])
	}
	g.calls[key] = c
	g.running.Go(func() { g.run(ctx, key, c, before, work) })
	return c
}

// Wait waits for work that continues after its callers have left. No caller may join meanwhile.
func (g *Group[K, V]) Wait() { g.running.Wait() }

func (g *Group[K, V]) run(ctx context.Context, key K, c, before *call[V], work func(context.Context) (V, error)) {
	defer func() {
		if v := recover(); v != nil {
			c.err = &PanicError{v, debug.Stack()}
		}
		g.remove(key, c) // a later caller begins the work again
		close(c.done)
	}()
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			return
		}
	}
	g.mu.Lock()
	c.begun = true
	g.mu.Unlock()
	c.result, c.err = work(ctx)
}

func (g *Group[K, V]) leave(key K, c *call[V]) {
	g.mu.Lock()
	c.callers--
	last := c.callers == 0
	if last && g.calls[key] == c {
		delete(g.calls, key) // the next caller must not join cancelled work
	}
	g.mu.Unlock()
	if last {
		c.cancel()
	}
}

func (g *Group[K, V]) remove(key K, c *call[V]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[key] == c {
		delete(g.calls, key)
	}
}
