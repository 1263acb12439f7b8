package shares

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Members are the processes that share the partitions. The calls come one after the other.
type Members interface {
	// Renew renews the lease of this process and returns the names of the processes whose leases hold.
	Renew(ctx context.Context) ([]string, error)

	// Leave removes the lease of this process.
	Leave(ctx context.Context) error
}

// Observer receives the number of partitions of this process, and of processes with a lease as far as this process knows, when one of the two changes.
type Observer interface {
	Shared(partitions, members int)
}

// Config configures Run. All fields but Observe and Log are required.
type Config struct {
	Member     string // the name of this process, which no other one has
	Partitions int
	Members    Members

	// Work works on a partition until its context ends, and then leaves it in a state with which another process continues. The reason to return is
	// ignored then. If it returns earlier, Run ends with its error.
	Work func(ctx context.Context, partition int) error

	Interval time.Duration // between two renewals
	Lease    time.Duration // how long a lease holds after its last renewal

	Observe Observer     // nil is none
	Log     *slog.Logger // nil disables logging
}

func (c Config) validate() error {
	switch {
	case c.Member == "":
		return errors.New("Member is empty")
	case c.Partitions < 1:
		return fmt.Errorf("Partitions is %d, want at least 1", c.Partitions)
	case c.Interval <= 0 || c.Interval > c.Lease/2:
		return fmt.Errorf("Interval is %s, want more than 0 and at most %s, half of Lease", c.Interval, c.Lease/2)
	}
	return nil
}

// leaveTimeout limits the removal of the lease: without it the share moves when the lease ends.
const leaveTimeout = time.Second

// Run works on the share of this process until ctx ends or Work fails, and returns that error. When it returns, no Work runs and the lease is removed.
//
// A process whose lease cannot be renewed keeps its share. One that has not had a lease yet works on all partitions, as if it were alone.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	g := &group{Config: cfg, running: make(map[int]*job), ended: make(chan ended)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := g.loop(ctx)
	cancel()
	g.leave(ctx)
	return err
}

// group is the state of Run. One goroutine owns it.
type group struct {
	Config

	mine    []bool // by partition
	running map[int]*job
	ended   chan ended

	counted   []string  // the members, as of the last renewal
	renewed   bool      // a renewal has succeeded
	failing   bool      // the last renewal has failed
	kept      []string  // members that count although their leases do not hold
	keptUntil time.Time // how long they count
	reported  [2]int    // to the Observer
}

// job is the Work on a partition.
type job struct{ stop context.CancelFunc }

// ended reports that the Work on a partition has returned.
type ended struct {
	partition int
	stopped   bool // by this process
	err       error
}

func (g *group) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			g.renew(ctx)
			g.apply(ctx)
			timer.Reset(g.Interval)
		case e := <-g.ended:
			delete(g.running, e.partition)
			if !e.stopped {
				return e.err
			}
			g.apply(ctx) // the partition may have come back while the Work ended
		}
	}
}

// renew renews the lease and decides which partitions belong to this process.
func (g *group) renew(ctx context.Context) {
	members, err := g.Members.Renew(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if !g.failing {
			g.Log.LogAttrs(ctx, slog.LevelWarn, "lease of the replica not renewed", slog.Bool("renewedBefore", g.renewed), slog.Any("error", err))
		}
		g.failing = true
		if !g.renewed {
			g.mine = slices.Repeat([]bool{true}, g.Partitions)
		}
		return
	case g.failing:
		g.Log.LogAttrs(ctx, slog.LevelInfo, "lease of the replica renewed again")
		g.failing = false
		g.kept, g.keptUntil = g.counted, time.Now().Add(g.Lease)
	}
	g.renewed = true
	g.divide(members)
}

// divide divides the partitions among the members with leases, and, after an outage, those from before it until they have had the time to renew their leases.
// Without that, the first process that finds the server available again would find itself alone, and take all partitions.
func (g *group) divide(members []string) {
	counted := append(slices.Clone(members), g.Member)
	if time.Now().Before(g.keptUntil) {
		counted = append(counted, g.kept...)
	}
	slices.Sort(counted)
	counted = slices.Compact(counted)
	if slices.Equal(counted, g.counted) && g.mine != nil {
		return
	}
	g.counted = counted
	mine := make([]bool, g.Partitions)
	for p, owner := range Owners(counted, g.Partitions) {
		mine[p] = owner == g.Member
	}
	g.mine = mine
}

// apply starts and stops Work. A partition that is stopped and comes back is started again when its Work has returned.
func (g *group) apply(ctx context.Context) {
	owned := 0
	for p, mine := range g.mine {
		running := g.running[p]
		switch {
		case mine && running == nil:
			g.start(ctx, p)
		case !mine && running != nil:
			running.stop()
		}
		if mine {
			owned++
		}
	}
	if now := [2]int{owned, len(g.counted)}; now != g.reported && ctx.Err() == nil {
		g.reported = now
		g.Log.LogAttrs(ctx, slog.LevelInfo, "partitions shared", slog.Int("partitions", owned), slog.Int("replicas", len(g.counted)))
		if g.Observe != nil {
			g.Observe.Shared(owned, len(g.counted))
		}
	}
}

func (g *group) start(ctx context.Context, partition int) {
	ctx, stop := context.WithCancel(ctx)
	g.running[partition] = &job{stop}
	go func() {
		err := g.Work(ctx, partition)
		stopped := ctx.Err() != nil
		stop()
		g.ended <- ended{partition, stopped, err}
	}()
}

// leave waits for the Work to return, and removes the lease meanwhile: the other processes begin to wait for the partitions while this one saves what it has.
func (g *group) leave(ctx context.Context) {
	var leaving sync.WaitGroup
	leaving.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := g.Members.Leave(ctx); err != nil {
			g.Log.LogAttrs(ctx, slog.LevelDebug, "lease of the replica not removed", slog.Any("error", err))
		}
	})
	for len(g.running) > 0 {
		e := <-g.ended
		delete(g.running, e.partition)
	}
	leaving.Wait()
}
