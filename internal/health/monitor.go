package health

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/wait"
)

// State is the state of a dependency, as it is in the body of /readyz.
type State string

// The states of a dependency.
const (
	OK      State = "ok"
	Failed  State = "failed"
	Unknown State = "unknown" // not probed yet, or the last probe did not report it
)

// Check probes some dependencies.
type Check struct {
	// Dependencies are the names that Probe reports, which are label values of a metric.
	Dependencies []string

	// Interval is the longest time between two probes, at least half of which passes. Defaults to 15 seconds.
	Interval time.Duration

	// Timeout bounds a probe. Defaults to 10 seconds.
	Timeout time.Duration

	// Probe reports the state of each dependency, with nil for OK. report may be called concurrently, and ignores other
	// names. A dependency that is not reported before Probe returns becomes Unknown.
	Probe func(ctx context.Context, report func(dependency string, err error))
}

// Monitor runs checks and keeps the last state of each dependency. Its methods are safe for concurrent use, except Add.
type Monitor struct {
	log    *slog.Logger
	up     *prometheus.GaugeVec
	checks []*check

	mu     sync.Mutex // guards states
	states map[string]*dependency
}

type check struct {
	Check

	wake chan struct{}
}

type dependency struct {
	state  State
	since  time.Time // of state
	logged bool      // a failure was logged, and no recovery since
}

// NewMonitor returns a Monitor without checks. It registers its metric with reg.
func NewMonitor(reg prometheus.Registerer, log *slog.Logger) *Monitor {
	m := &Monitor{log: log, states: make(map[string]*dependency), up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tailrace_dependency_up", Help: "1 if the last background probe of the dependency succeeded, else 0.",
	}, []string{"dependency"})}
	reg.MustRegister(m.up)
	return m
}

// Add adds a check. It must not be called after Run.
func (m *Monitor) Add(c Check) {
	c.Interval = cmp.Or(c.Interval, 15*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	m.checks = append(m.checks, &check{c, make(chan struct{}, 1)})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range c.Dependencies {
		m.states[name] = &dependency{state: Unknown}
		m.up.WithLabelValues(name).Set(0)
	}
}

// Run runs each check at once and then at its interval, until ctx ends. It returns nil.
func (m *Monitor) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, c := range m.checks {
		running.Go(func() { m.repeat(ctx, c) })
	}
	running.Wait()
	return nil
}

// Wake makes the next probe of each check due within a second.
func (m *Monitor) Wake() {
	for _, c := range m.checks {
		wait.Signal(c.wake)
	}
}

// States returns the state of each dependency.
func (m *Monitor) States() map[string]State {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make(map[string]State, len(m.states))
	for name, d := range m.states {
		states[name] = d.state
	}
	return states
}

// FailedFor returns how long ago a dependency was found to have failed, 0 if it works or its state is not known.
func (m *Monitor) FailedFor(name string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.states[name]
	if d == nil || d.state != Failed {
		return 0
	}
	return time.Since(d.since)
}

func (d *dependency) enter(s State) {
	if d.state != s {
		d.state, d.since = s, time.Now()
	}
}

// wakeDelay has jitter because all processes reconnect to a restarted server at the same time.
var wakeDelay = wait.Backoff{First: time.Second, Max: time.Second, Jitter: true}

func (m *Monitor) repeat(ctx context.Context, c *check) {
	interval := wait.Backoff{First: c.Interval, Max: c.Interval, Jitter: true}
	for {
		m.probe(ctx, c)
		timer := time.NewTimer(interval.Delay(1))
		select {
		case <-timer.C:
		case <-c.wake:
			timer.Stop()
			if wait.Sleep(ctx, wakeDelay.Delay(1)) != nil {
				return
			}
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (m *Monitor) probe(ctx context.Context, c *check) {
	probing, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	var mu sync.Mutex // guards reported
	reported := make(map[string]bool, len(c.Dependencies))
	c.Probe(probing, func(name string, err error) {
		mu.Lock()
		reported[name] = true
		mu.Unlock()
		if ctx.Err() == nil { // otherwise the error is the end of the process
			m.set(name, err)
		}
	})
	for _, name := range c.Dependencies {
		if !reported[name] {
			m.forget(name)
		}
	}
}

// set stores the result of a probe, and logs it if it differs from the last one that was logged.
func (m *Monitor) set(name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.states[name]
	if d == nil {
		return
	}
	wasLogged := d.logged
	d.logged = err != nil
	if err != nil {
		d.enter(Failed)
		m.up.WithLabelValues(name).Set(0)
		if !wasLogged {
			m.log.Warn("dependency failed", "dependency", name, "error", err)
		}
		return
	}
	d.enter(OK)
	m.up.WithLabelValues(name).Set(1)
	if wasLogged {
		m.log.Info("dependency restored", "dependency", name)
	}
}

// forget makes a state unknown. It is not logged: the cause is a dependency that has failed, which is.
func (m *Monitor) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[name].enter(Unknown)
	m.up.WithLabelValues(name).Set(0)
}
