package projector_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
)

// queue is a Source in memory: it delivers its records until they are acknowledged, and redelivers the rest in the next Run.
type queue struct {
	mu       sync.Mutex // guards the fields below
	waiting  []chunk.Record
	inFlight map[chunk.Seq]chunk.Record
	acked    map[chunk.Seq]int
	wake     chan struct{}
	idle     chan struct{} // closed and replaced when all records are acknowledged
	lose     func() bool   // whether an Ack is lost
	batch    int
	released []int // deliveries without acknowledgement at each Release
}

func newQueue() *queue {
	return &queue{
		inFlight: make(map[chunk.Seq]chunk.Record), acked: make(map[chunk.Seq]int),
		wake: make(chan struct{}, 1), idle: make(chan struct{}), batch: 50,
	}
}

func (q *queue) put(records ...chunk.Record) {
	q.mu.Lock()
	q.waiting = append(q.waiting, records...)
	q.mu.Unlock()
	q.notify()
}

func (q *queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// redeliver delivers the unacknowledged records again, as a server does after a timeout.
func (q *queue) redeliver() {
	q.mu.Lock()
	var again []chunk.Record
	for seq, rec := range q.inFlight {
		again = append(again, rec)
		delete(q.inFlight, seq)
	}
	slices.SortFunc(again, func(a, b chunk.Record) int { return int(a.Seq) - int(b.Seq) })
	q.waiting = append(q.waiting, again...)
	q.mu.Unlock()
	q.notify()
}

func (q *queue) Run(ctx context.Context, take func(context.Context, []projector.Delivery) error) error {
	q.redeliver()
	for {
		if batch := q.next(); len(batch) > 0 {
			if err := take(ctx, batch); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-q.wake:
		}
	}
}

func (q *queue) Release(context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.released = append(q.released, len(q.inFlight)+len(q.waiting))
}

func (q *queue) next() []projector.Delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []projector.Delivery
	for len(batch) < q.batch && len(q.waiting) > 0 {
		rec := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.inFlight[rec.Seq] = rec
		batch = append(batch, projector.Delivery{Record: rec, Acker: &ticket{q, rec.Seq}})
	}
	return batch
}

type ticket struct {
	q   *queue
	seq chunk.Seq
}

func (a *ticket) Ack() error {
	a.q.mu.Lock()
	defer a.q.mu.Unlock()
	if a.q.lose != nil && a.q.lose() {
		return errors.New("lost")
	}
	delete(a.q.inFlight, a.seq)
	a.q.acked[a.seq]++
	if len(a.q.inFlight)+len(a.q.waiting) == 0 {
		close(a.q.idle)
		a.q.idle = make(chan struct{})
	}
	return nil
}

func (q *queue) unacked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.inFlight) + len(q.waiting)
}

// drained waits until all records are acknowledged.
func (q *queue) drained(t *testing.T) {
	t.Helper()
	for {
		q.mu.Lock()
		done, idle := len(q.inFlight)+len(q.waiting) == 0, q.idle
		q.mu.Unlock()
		if done {
			return
		}
		select {
		case <-idle:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d deliveries are still unacknowledged", q.unacked())
		}
	}
}

// start runs a Runner until the returned function is called.
func start(t *testing.T, src projector.Source, st projector.Store, log projector.Log, cfg projector.Config) (*projector.Runner, func()) {
	t.Helper()
	r, err := projector.NewRunner(src, st, log, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return r, stop
}
