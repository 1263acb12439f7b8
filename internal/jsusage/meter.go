// Package jsusage counts the tokens that tenants use, by day in UTC, in a key-value bucket.
//
//	meter, err := jsusage.NewMeter(js, jsusage.Config{})
//	meter.Count("acme", 1200)                 // returns at once
//	used := meter.Total(ctx, "acme")          // today, of all processes
//	meter.Close()                             // stores what is not stored yet
//
// A Meter adds its tokens in memory and stores one number for each tenant and day, again and again until the outcome is known. So it needs no queue while the server
// is unavailable, and a number that is written twice counts once.
package jsusage

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures a Meter. The zero Config is ready for production.
type Config struct {
	// Layout names the bucket. All processes of a deployment share it.
	Layout subjects.Layout

	// Now returns the time that decides about the day. Defaults to time.Now.
	Now func() time.Time

	// Log gets the begin and the end of a time in which tokens cannot be stored or read. Defaults to none.
	Log *slog.Logger
}

const (
	// flushInterval is the time after which counted tokens are stored, and for which a total that was read is used.
	flushInterval = time.Second

	// totalTimeout bounds the delay of Total. After it the last known total is used, for flushInterval.
	totalTimeout = 500 * time.Millisecond

	// closeTimeout bounds Close.
	closeTimeout = 3 * time.Second

	// flushConcurrency is the number of tenants whose tokens are stored at the same time.
	flushConcurrency = 16
)

// flushBackoff is the delay after passes that have not stored all tokens.
var flushBackoff = wait.Backoff{First: flushInterval, Max: 10 * flushInterval, Jitter: true}

// Meter counts the tokens of tenants. Its methods may be called concurrently. Those of the nil *Meter do nothing.
type Meter struct {
	store   *Store
	cfg     Config
	process string

	ctx    context.Context //nolint:containedctx // ends in Close, of the goroutine that Count starts
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex      // guards everything below, and the days
	days     map[string]*day // by key
	flushing bool            // the goroutine runs
	closed   bool
	failing  int       // number of readFailed and writeFailed of all days
	removed  time.Time // days before were removed
}

const oneDay = 24 * time.Hour

// day is the usage of one tenant on one day.
type day struct {
	tenant string
	key    string
	begin  time.Time

	reading, writing chan struct{} // have an element while a request is in flight

	counted   int64     // by this process
	stored    int64     // the part of them that is stored
	last      version   // the last known record
	checkedAt time.Time // end of the last request; zero for none

	readFailed, writeFailed bool // the last request of the kind
}

// NewMeter returns a Meter over js. It sends no request; the bucket must exist when it is used (package topology creates it).
func NewMeter(js jetstream.JetStream, cfg Config) (*Meter, error) {
	store, err := NewStore(js, cfg.Layout)
	if err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	m := &Meter{store: store, cfg: cfg, process: rand.Text(), days: make(map[string]*day)}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// Count adds tokens of a tenant to today's. They are stored within seconds.
func (m *Meter) Count(tenant string, tokens int64) {
	if m == nil || tokens <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.today(tenant)
	if d == nil || m.closed {
		return
	}
	d.counted = add(d.counted, min(tokens, maxTokens))
	if !m.flushing {
		m.flushing = true
		m.work.Go(m.flushAll)
	}
}

// Total returns the tokens of a tenant today: those that this process has counted, and those of all others as the bucket had them at most a second ago. While the
// bucket does not respond, those of others are as they were last known.
func (m *Meter) Total(ctx context.Context, tenant string) int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	d := m.today(tenant)
	m.mu.Unlock()
	if d == nil {
		return 0
	}
	m.refresh(ctx, d)
	m.mu.Lock()
	defer m.mu.Unlock()
	return add(d.last.Tokens, d.last.missing(m.process, d.counted, d.stored))
}

// Unstored returns the number of counted tokens that are not stored yet.
func (m *Meter) Unstored() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := int64(0)
	for _, d := range m.days {
		sum = add(sum, d.counted-d.stored)
	}
	return sum
}

// Close stores what is not stored yet, within three seconds. Tokens that cannot be stored are logged and lost. Count does nothing afterwards.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	done := m.closed
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.work.Wait()
	if done {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), closeTimeout)
	defer cancel()
	m.flush(ctx)
	for _, d := range m.unstored() {
		m.mu.Lock()
		lost := d.counted - d.stored
		m.mu.Unlock()
		m.cfg.Log.Warn("token usage lost", "tenant", d.tenant, "day", d.begin.Format(time.DateOnly), "tokens", lost)
	}
}

// today returns the current day of a tenant, nil if the name of the tenant is malformed. m.mu is locked.
func (m *Meter) today(tenant string) *day {
	now := m.cfg.Now().UTC()
	key, err := names.UsageKey(tenant, now)
	if err != nil {
		return nil // no command has it
	}
	d, ok := m.days[key]
	if !ok {
		d = &day{tenant: tenant, key: key, begin: now.Truncate(oneDay), reading: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
		m.days[key] = d
		m.removeBefore(d.begin.Add(-oneDay))
	}
	return d
}

// removeBefore removes the days before begin that are stored. Yesterday's is kept for a clock that jumps back: a process that counts for the same day again, from
// zero, would add nothing until it exceeds its share. m.mu is locked.
func (m *Meter) removeBefore(begin time.Time) {
	if !begin.After(m.removed) {
		return
	}
	m.removed = begin
	for key, d := range m.days {
		if d.begin.Before(begin) && d.counted == d.stored {
			delete(m.days, key)
			if d.readFailed {
				m.failing--
			}
		}
	}
}

// unstored returns the days with tokens that are not stored yet.
func (m *Meter) unstored() []*day {
	m.mu.Lock()
	defer m.mu.Unlock()
	var days []*day
	for _, d := range m.days {
		if d.counted > d.stored {
			days = append(days, d)
		}
	}
	return days
}

// flushAll stores counted tokens until all are stored, or Close is called.
func (m *Meter) flushAll() {
	for n := 1; wait.Sleep(m.ctx, flushBackoff.Delay(n)) == nil; n++ {
		if m.flush(m.ctx) {
			n = 0
		}
		m.mu.Lock()
		m.flushing = false
		for _, d := range m.days {
			m.flushing = m.flushing || d.counted > d.stored
		}
		done := !m.flushing
		m.mu.Unlock()
		if done {
			return
		}
	}
}

// flush makes one attempt to store the tokens of each day that has some, and reports whether all were successful.
func (m *Meter) flush(ctx context.Context) bool {
	var writing sync.WaitGroup
	slots := make(chan struct{}, flushConcurrency)
	days := m.unstored()
	results := make([]bool, len(days))
	for i, d := range days {
		slots <- struct{}{}
		writing.Go(func() {
			results[i] = m.flushDay(ctx, d)
			<-slots
		})
	}
	writing.Wait()
	return !slices.ContainsFunc(results, func(ok bool) bool { return !ok })
}

// flushDay stores the tokens of a day, and reports whether it was successful.
func (m *Meter) flushDay(ctx context.Context, d *day) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	select {
	case d.writing <- struct{}{}:
		defer func() { <-d.writing }()
	case <-ctx.Done():
		return false
	}
	m.mu.Lock()
	last, counted, stored := d.last, d.counted, d.stored
	m.mu.Unlock()
	last, err := m.store.write(ctx, d.key, last, m.process, counted, stored)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		d.last, d.stored, d.checkedAt = last, counted, time.Now()
		m.observe(d, &d.readFailed, nil)
	}
	m.observe(d, &d.writeFailed, err)
	return err == nil
}

// refresh reads the record of a day if the last request was long ago. It blocks for totalTimeout at most, also if ctx ends. It does not write, because a write is
// repeated while other processes write too.
func (m *Meter) refresh(ctx context.Context, d *day) {
	if m.isFresh(d) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), totalTimeout)
	defer cancel()
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return
	}
	if m.isFresh(d) { // read by the caller that had the slot
		return
	}
	last, err := m.store.read(ctx, d.key)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		// It may be older than the record of a write that ended meanwhile. The next write is refused then, and reads it again.
		d.last = last
	}
	d.checkedAt = time.Now() // also if it failed: other steps do not wait for it
	m.observe(d, &d.readFailed, err)
}

func (m *Meter) isFresh(d *day) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !d.checkedAt.IsZero() && time.Since(d.checkedAt) < flushInterval
}

// observe logs when requests begin to fail, and when none fails any more. failed is the result of the last request of the kind. m.mu is locked.
func (m *Meter) observe(d *day, failed *bool, err error) {
	switch {
	case *failed == (err != nil):
		return
	case err != nil && m.ctx.Err() != nil: // Close logs what is lost
		return
	case m.days[d.key] != d: // removed during the request
		return
	case err != nil:
		if m.failing++; m.failing == 1 {
			m.cfg.Log.Warn("token usage unavailable", "tenant", d.tenant, "error", err)
		}
	default:
		if m.failing--; m.failing == 0 {
			m.cfg.Log.Info("token usage available again")
		}
	}
	*failed = err != nil
}
