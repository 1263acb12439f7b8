package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// Store stores events. *jscontrol.Audit implements it.
type Store interface {
	// Put stores an event once, however often it is called with the same ID within the duplicate window of the store. It is called concurrently.
	Put(ctx context.Context, e Event) error
}

// ErrUnavailable reports that an act was not carried out, because the log is required and its event could not be stored.
var ErrUnavailable = errors.New("audit log unavailable")

// Mode is when the event of an act is stored.
type Mode int

// The modes.
const (
	// Async carries out the act and queues its event. Run stores it.
	Async Mode = iota

	// Sync carries out the act and stores its event before Do returns. It needs no Run.
	Sync

	// Required stores the event before the act, with the outcome Requested, and refuses the act if that fails.
	Required
)

// Config configures a Log. Store is required.
type Config struct {
	Store Store
	Mode  Mode

	// MaxQueue is the number of events that wait for the store. Further ones are lost: they are counted, and logged with their ids. Defaults to 8192.
	MaxQueue int

	// RefusalsPerSecond and RefusalBurst limit the events of refused accesses. Further ones are counted in one event a second. Default to 10 and 50.
	RefusalsPerSecond, RefusalBurst int

	// OnStored and OnLost are called for each event that was stored, or that is lost. May be nil.
	OnStored, OnLost func()

	// Log receives what is lost. Defaults to none.
	Log *slog.Logger
}

const (
	// writers is the number of events that are written at the same time.
	writers = 8

	// writeTimeout bounds the write of one event that an act waits for: in the modes Sync and Required.
	writeTimeout = 5 * time.Second
)

// Log records events. Its methods are safe for concurrent use. The nil *Log records nothing.
type Log struct {
	cfg   Config
	queue chan Event

	mu       sync.Mutex // guards the fields below
	pending  int        // events in the queue and in a writer
	idle     chan struct{}
	stopped  bool // Run has ended
	tokens   float64
	refilled time.Time
	omitted  int64   // refused accesses since the last event that counts them
	refused  []Event // events of refused accesses that are not in the queue yet
}

// New returns a Log. In the mode Async events are stored while Run runs; in the other modes those of refused accesses are.
func New(cfg Config) *Log {
	cfg.MaxQueue = cmp.Or(cfg.MaxQueue, 8192)
	cfg.RefusalsPerSecond = cmp.Or(cfg.RefusalsPerSecond, 10)
	cfg.RefusalBurst = cmp.Or(cfg.RefusalBurst, 50)
	if cfg.OnStored == nil {
		cfg.OnStored = func() {}
	}
	if cfg.OnLost == nil {
		cfg.OnLost = func() {}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Log{cfg: cfg, queue: make(chan Event, cfg.MaxQueue), tokens: float64(cfg.RefusalBurst), refilled: time.Now()}
}

// Do carries out an act and records it, with what the context knows about the request. The error is that of act, or ErrUnavailable. Only an act that is done,
// or may be done (chunk.ErrUnknownOutcome), is recorded, except in the mode Required.
func (l *Log) Do(ctx context.Context, e Event, act func() error) error {
	end, err := l.Begin(ctx, e)
	if err != nil {
		return err
	}
	err = act()
	switch {
	case err == nil:
		end(Done)
	case errors.Is(err, chunk.ErrUnknownOutcome):
		end(Unknown)
	}
	return err
}

// Begin is Do for an act whose outcome the caller finds out: call end with it, or not at all if nothing was done. The error is ErrUnavailable.
func (l *Log) Begin(ctx context.Context, e Event) (end func(Outcome), err error) {
	if l == nil {
		return func(Outcome) {}, nil
	}
	if l.cfg.Mode != Required {
		return func(outcome Outcome) { l.add(ctx, e, outcome) }, nil
	}
	if err := l.write(ctx, l.complete(ctx, e, Requested)); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, err.Error()) // its kind is that of the event, not of the act
	}
	l.cfg.OnStored()
	return func(Outcome) {}, nil
}

// Record records what a worker finds, such as an approval that is not used. Another worker finds the same after a crash of the first one: it is the same event.
func (l *Log) Record(ctx context.Context, e Event, outcome Outcome) {
	if l != nil {
		e.Outcome = outcome
		e.ID = idOf("", e)
		l.add(ctx, e, outcome)
	}
}

func (l *Log) add(ctx context.Context, e Event, outcome Outcome) {
	e = l.complete(ctx, e, outcome)
	if l.cfg.Mode == Async {
		l.enqueue(e)
		return
	}
	if err := l.write(ctx, e); err != nil { // the act is done, whatever happens to the request
		l.lost(e, err)
		return
	}
	l.cfg.OnStored()
}

// write stores an event that a request waits for, also if its client disconnects.
func (l *Log) write(ctx context.Context, e Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return l.cfg.Store.Put(ctx, e)
}

func (l *Log) complete(ctx context.Context, e Event, outcome Outcome) Event {
	e.Outcome, e.Time = outcome, time.Now()
	request := ""
	if r := requestOf(ctx); r != nil {
		request, e.Route, e.Address = r.key(), r.route, r.address
		e.By, e.Tenant = cmp.Or(e.By, r.by), cmp.Or(e.Tenant, r.tenant)
		if d := r.detail; d != nil {
			e.Session, e.Run, e.Call, e.Target = cmp.Or(e.Session, d.Session), cmp.Or(e.Run, d.Run), cmp.Or(e.Call, d.Call), cmp.Or(e.Target, d.Target)
		}
	}
	e.Tenant = cmp.Or(e.Tenant, e.Session.Tenant)
	if e.ID == "" {
		e.ID = idOf(cmp.Or(request, rand.Text()), e)
	}
	return e
}

// refusalDelay is how long the event of a refused access is kept before it is queued. Otherwise its write would compete with the request for the processor: the
// response for a hidden session would be later than that for a session that does not exist, where both are 204 and only the first one is a refusal.
const refusalDelay = 50 * time.Millisecond

// Refuse records a refused access. It never waits. Refused accesses take at most half of the queue, so that they cannot displace acts.
func (l *Log) Refuse(e Event) {
	if l == nil {
		return
	}
	now := time.Now()
	e.Act, e.Outcome, e.Time = Access, Refused, now
	l.mu.Lock()
	l.tokens = min(float64(l.cfg.RefusalBurst), l.tokens+now.Sub(l.refilled).Seconds()*float64(l.cfg.RefusalsPerSecond))
	l.refilled = now
	full := l.stopped || len(l.queue)+len(l.refused) >= l.cfg.MaxQueue/2
	switch {
	case l.tokens < 1:
		l.omitted++
		full = false
	case !full:
		l.tokens--
		l.pending++
		if l.refused = append(l.refused, e); len(l.refused) == 1 {
			time.AfterFunc(refusalDelay, l.queueRefused)
		}
	}
	l.mu.Unlock()
	if full {
		e.ID = rand.Text()
		l.lost(e, errQueue)
	}
}

// queueRefused queues the events of refused accesses.
func (l *Log) queueRefused() {
	l.mu.Lock()
	refused := l.refused
	l.refused = nil
	for i := range refused {
		refused[i].ID = rand.Text()
	}
	for len(refused) > 0 && !l.stopped && len(l.queue) < l.cfg.MaxQueue {
		l.queue <- refused[0] // there is space: other senders wait for the mutex
		refused = refused[1:]
	}
	l.mu.Unlock()
	for _, e := range refused {
		l.lost(e, errQueue)
		l.handled()
	}
}

// enqueue adds an event if there is space.
func (l *Log) enqueue(e Event) {
	l.mu.Lock()
	if l.stopped || len(l.queue) >= l.cfg.MaxQueue {
		l.mu.Unlock()
		l.lost(e, errQueue)
		return
	}
	l.pending++
	l.queue <- e // there is space: other senders wait for the mutex
	l.mu.Unlock()
}

var errQueue = errors.New("the queue is full or closed")

// lost counts and logs an event that is not stored. Its ids are in the log of the process.
func (l *Log) lost(e Event, err error) {
	l.cfg.OnLost()
	data, encodeErr := e.Encode()
	l.cfg.Log.Error("audit event lost", "id", e.ID, "time", e.Time, "event", string(data), "error", errors.Join(err, encodeErr))
}

// Run stores the queued events until ctx ends, and then returns nil. It may be called once. Drain before: events that wait then are lost.
func (l *Log) Run(ctx context.Context) error {
	if l == nil {
		return nil
	}
	var group sync.WaitGroup
	for range writers {
		group.Go(func() { l.storeQueued(ctx) })
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			l.countOmitted()
		case <-ctx.Done():
		}
	}
	group.Wait()
	l.queueRefused()
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	for {
		select {
		case e := <-l.queue:
			l.lost(e, context.Cause(ctx))
			l.handled()
		default:
			return nil
		}
	}
}

// countOmitted queues an event with the number of refused accesses that have no event of their own.
func (l *Log) countOmitted() {
	l.mu.Lock()
	n := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	if n > 0 {
		l.enqueue(Event{ID: rand.Text(), Time: time.Now(), Act: Access, Outcome: Refused, Count: n})
	}
}

func (l *Log) storeQueued(ctx context.Context) {
	for {
		select {
		case e := <-l.queue:
			if err := l.retry(ctx, e); err != nil {
				l.lost(e, err)
			} else {
				l.cfg.OnStored()
			}
			l.handled()
		case <-ctx.Done():
			return
		}
	}
}

// retryDelay is the time between two attempts to store an event.
const retryDelay = 500 * time.Millisecond

// retry stores an event, however long the store cannot be reached. Without an end of the attempts the queue fills, and what does not fit is lost with a log
// line, which is the only bound: a store that is away for an hour has lost nothing if the queue was large enough.
func (l *Log) retry(ctx context.Context, e Event) error {
	for n := 1; ; n++ {
		err := l.cfg.Store.Put(ctx, e)
		if err == nil || errors.Is(err, chunk.ErrInvalid) || errors.Is(err, chunk.ErrTooLarge) {
			return err
		}
		if n == 1 {
			l.cfg.Log.WarnContext(ctx, "audit event not stored yet", "error", err)
		}
		if wait.Sleep(ctx, retryDelay) != nil {
			return err
		}
	}
}

func (l *Log) handled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending--; l.pending == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Drain blocks until all events are stored or lost, or ctx ends. Call it when there are no more requests, while Run runs.
func (l *Log) Drain(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.countOmitted()
	l.queueRefused()
	l.mu.Lock()
	if l.pending == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("audit log: events are not stored: %w", ctx.Err())
	}
}

// Queued returns the number of events that are not stored yet.
func (l *Log) Queued() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending
}
