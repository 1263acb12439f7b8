package shares

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	interval = 1500 * time.Millisecond
	lease    = 6 * time.Second
)

// fleet is the leases of some processes and their work, in the time of synctest.
type fleet struct {
	t          *testing.T
	partitions int
	saving     time.Duration // how long Work saves what it has when it is stopped

	mu      sync.Mutex // guards the fields below
	down    error      // of the server, nil if it is available
	expires map[string]time.Time
	works   map[int][]string // the processes that work on each partition
	starts  int              // of Work
	shared  map[string][2]int
}

func newFleet(t *testing.T, partitions int) *fleet {
	t.Helper()
	return &fleet{t: t, partitions: partitions, expires: map[string]time.Time{}, works: map[int][]string{}, shared: map[string][2]int{}}
}

// replica is one process of a fleet.
type replica struct {
	*fleet

	name   string
	killed bool // it does nothing any more: renews nothing, and ends no Work
	stop   func() error
}

func (r *replica) Renew(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.killed:
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return nil, ctx.Err()
	case r.down != nil:
		return nil, r.down
	}
	r.expires[r.name] = time.Now().Add(lease)
	return r.holders(), nil
}

func (f *fleet) holders() []string {
	var names []string
	for name, at := range f.expires {
		if time.Now().Before(at) {
			names = append(names, name)
		}
	}
	return names
}

func (r *replica) Leave(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil || r.killed {
		return r.down
	}
	delete(r.expires, r.name)
	return nil
}

func (r *replica) Shared(partitions, members int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared[r.name] = [2]int{partitions, members}
}

//tailrace:bubble
func (r *replica) work(ctx context.Context, partition int) error {
	r.mu.Lock()
	if slices.Contains(r.works[partition], r.name) {
		r.t.Errorf("%s works twice on partition %d", r.name, partition)
	}
	r.works[partition] = append(r.works[partition], r.name)
	r.starts++
	r.mu.Unlock()
	<-ctx.Done()
	time.Sleep(r.saving)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.works[partition] = slices.DeleteFunc(r.works[partition], func(name string) bool { return name == r.name })
	return ctx.Err()
}

func (f *fleet) start(name string) *replica {
	r := &replica{fleet: f, name: name}
	ctx, cancel := context.WithCancel(f.t.Context())
	result := make(chan error, 1)
	go func() {
		result <- Run(ctx, Config{
			Member: name, Partitions: f.partitions, Members: r, Work: r.work, Interval: interval, Lease: lease, Observe: r,
		})
	}()
	r.stop = func() error {
		cancel()
		return <-result
	}
	return r
}

// kill ends a process without any of its code.
func (r *replica) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	for p := range r.works {
		r.works[p] = slices.DeleteFunc(r.works[p], func(name string) bool { return name == r.name })
	}
}

// divided checks that exactly the owners among some members work.
func (f *fleet) divided(members ...string) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, owner := range Owners(members, f.partitions) {
		if !slices.Equal(f.works[p], []string{owner}) {
			f.t.Errorf("%v work on partition %d, want %s", f.works[p], p, owner)
		}
	}
}

func (f *fleet) setDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

// A process that is alone works on all partitions at once. Processes that join get their share within two intervals; that of one that leaves moves as fast, and that of a
// dead one when its lease ends.
func TestShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		a := f.start("a")
		f.divided("a")
		if f.starts != 16 {
			t.Errorf("%d starts", f.starts)
		}
		b, c := f.start("b"), f.start("c")
		time.Sleep(2 * interval)
		f.divided("a", "b", "c")
		if got := f.shared["a"]; got[0] < 5 || got[0] > 6 || got[1] != 3 {
			t.Errorf("a observed %v", got)
		}
		if err := b.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("b ended with %v", err)
		}
		time.Sleep(2 * interval)
		f.divided("a", "c")
		a.kill()
		time.Sleep(lease + interval)
		f.divided("c")
		_, _ = a.stop(), c.stop()
	})
}

// Work that is stopped may save for longer than the partition is away: it is not started a second time meanwhile.
func TestWorkDoesNotOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8)
		f.saving = 10 * interval
		a := f.start("a")
		f.divided("a")
		for range 3 {
			b := f.start("b")
			time.Sleep(2 * interval)
			go func() { _ = b.stop() }()
			time.Sleep(14 * interval)
			f.divided("a")
		}
		_ = a.stop()
	})
}

// While the server is away for an hour, every process keeps its share. When it is back, a process that finds the leases of the others missing does not take their
// shares; the share of one that died meanwhile moves one lease later.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 16)
		a, b := f.start("a"), f.start("b")
		time.Sleep(interval / 2)
		c := f.start("c") // so that it finds the server available before the others
		time.Sleep(4 * interval)
		f.divided("a", "b", "c")
		starts := f.starts
		f.setDown(errors.New("no responders"))
		time.Sleep(time.Hour)
		f.divided("a", "b", "c")
		f.setDown(nil)
		for range 10 {
			time.Sleep(interval / 4)
			f.divided("a", "b", "c")
		}
		if f.starts != starts {
			t.Errorf("%d starts during and after the outage", f.starts-starts)
		}

		f.setDown(errors.New("no responders"))
		time.Sleep(time.Minute)
		b.kill()
		f.setDown(nil)
		time.Sleep(lease + 2*interval)
		f.divided("a", "c")
		_, _, _ = a.stop(), b.stop(), c.stop()
	})
}

// A process that cannot get a lease works on all partitions. When it gets one, it keeps its share.
func TestWithoutALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8)
		f.setDown(errors.New("permissions violation"))
		a, b := f.start("a"), f.start("b")
		time.Sleep(10 * interval)
		f.mu.Lock()
		for p := range 8 {
			if len(f.works[p]) != 2 {
				t.Errorf("%v work on partition %d", f.works[p], p)
			}
		}
		f.mu.Unlock()
		if got := f.shared["a"]; got != [2]int{8, 0} {
			t.Errorf("a observed %v", got)
		}
		f.setDown(nil)
		time.Sleep(3 * interval)
		f.divided("a", "b")
		_, _ = a.stop(), b.stop()
	})
}

// An error of Work ends Run, after all other Work.
func TestWorkFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		r := &replica{fleet: f, name: "a"}
		broken := errors.New("stream has other settings")
		err := Run(t.Context(), Config{
			Member: "a", Partitions: 4, Members: r, Interval: interval, Lease: lease,
			Work: func(ctx context.Context, partition int) error {
				if partition == 2 {
					time.Sleep(time.Second)
					return broken
				}
				return r.work(ctx, partition)
			},
		})
		if !errors.Is(err, broken) {
			t.Errorf("%v, want the error of Work", err)
		}
		for p, names := range f.works {
			if len(names) > 0 {
				t.Errorf("%v work on partition %d", names, p)
			}
		}
		if len(f.expires) > 0 {
			t.Errorf("%d leases are left", len(f.expires))
		}
	})
}

func TestConfigRefused(t *testing.T) {
	t.Parallel()
	valid := Config{Member: "a", Partitions: 1, Interval: interval, Lease: lease}
	for name, change := range map[string]func(*Config){
		"Member":     func(c *Config) { c.Member = "" },
		"Partitions": func(c *Config) { c.Partitions = 0 },
		"Interval":   func(c *Config) { c.Interval = lease },
	} {
		cfg := valid
		change(&cfg)
		if err := Run(t.Context(), cfg); err == nil || err.Error()[:len(name)] != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
