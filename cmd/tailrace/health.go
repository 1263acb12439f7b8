package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/topology"
)

// recreateInterval is the interval of the stream check in a process that creates streams: a deleted one is created again: until then sessions cannot be written or saved.
const recreateInterval = 5 * time.Second

// conditions are what a process knows about itself. A probe never waits for NATS: all processes would become unready at the same time.
type conditions struct {
	started, ready []health.Condition

	streams   atomic.Bool // the streams were checked, or created, once
	projector atomic.Bool // the loops of the projector run
}

// add adds a condition of /startupz and /readyz.
func (c *conditions) add(name string, met func() bool) {
	condition := health.Condition{Name: name, Met: met}
	c.started = append(c.started, condition)
	c.ready = append(c.ready, condition)
}

// withProjector prepares the process for project.
func (b *app) withProjector() {
	b.conditions.add("projector", b.conditions.projector.Load)
}

// addHealth adds the conditions of the edge, and its feeds as a dependency.
func (f *httpServer) addHealth() {
	c := &f.b.conditions
	c.started = append(c.started, health.Condition{Name: "hub", Met: func() bool { return f.edge.Status().Started }})
	c.ready = append(c.ready,
		health.Condition{Name: "hub", Met: func() bool { return f.edge.Status().Running }},
		health.Condition{Name: "draining", Met: func() bool { return !f.edge.Status().Draining }},
	)
	if revocations := f.auth.revocations; revocations != nil {
		c.add("revocations", revocations.IsLoaded)
	}
	f.b.watchFeeds(f.edge)
}

// watchFeeds adds the feeds of an edge as a dependency.
func (b *app) watchFeeds(edge *roles.Edge) {
	b.monitor.Add(health.Check{
		Dependencies: []string{"feeds"}, Interval: 2 * time.Second, // reads memory only
		Probe: func(_ context.Context, report func(string, error)) {
			if status := edge.Status(); status.Started { // before that it is /startupz that reports them
				report("feeds", status.Feeds)
			}
		},
	})
}

// probes returns the probes of the process.
func (b *app) probes() health.Probes {
	c := &b.conditions
	return health.Probes{
		Started: append(c.started, health.Condition{Name: "streams", Met: c.streams.Load}), Ready: c.ready, Monitor: b.monitor,
	}
}

// watchDependencies adds the checks of every role: the connection and the streams. The number of requests depends on the number of streams and on the time alone.
func (b *app) watchDependencies() error {
	streams, err := topology.Streams(b.cfg.topology())
	if err != nil {
		return err
	}
	b.watchConnection()
	check := health.Check{Probe: b.probeStreams}
	for _, stream := range streams {
		check.Dependencies = append(check.Dependencies, stream.Name)
	}
	if b.createsStreams {
		check.Interval = recreateInterval
	}
	b.monitor.Add(check)
	return nil
}

// watchConnection adds the check of the connection.
func (b *app) watchConnection() {
	b.monitor.Add(health.Check{Dependencies: []string{"nats"}, Interval: 2 * time.Second, Probe: func(_ context.Context, report func(string, error)) {
		report("nats", b.connected())
	}})
}

var errNotConnected = errors.New("not connected")

func (b *app) connected() error {
	if !b.nc.IsConnected() {
		return errNotConnected
	}
	return nil
}

// unreachableAfter is how long the connection is known to be lost until requests are refused at once. The probe that finds out runs up to a second after the
// loss, so that a connection that is moved to another server refuses none.
const unreachableAfter = time.Second

// unreachable reports whether NATS has been unreachable for about two seconds or longer.
func (b *app) unreachable() bool {
	return !b.nc.IsConnected() && b.monitor.FailedFor("nats") > unreachableAfter
}

// probeStreams reports each stream as topology.Check sees it. It creates the missing ones if the process recreates streams and all others are as required.
func (b *app) probeStreams(ctx context.Context, report func(string, error)) {
	if b.connected() != nil {
		return
	}
	var mu sync.Mutex // guards different
	var different []string
	if err := topology.CheckEach(ctx, b.js, b.topology(), func(stream string, err error) {
		report(stream, err)
		if _, ok := errors.AsType[*topology.DiffError](err); ok {
			mu.Lock()
			defer mu.Unlock()
			different = append(different, stream)
		}
	}); err != nil {
		b.log.Error("stream check failed", "error", err)
	}
	if len(different) == 0 || !b.createsStreams || b.ensureTopologyOnce(ctx) != nil {
		return // the next probe tries again
	}
	for _, stream := range different {
		report(stream, nil)
	}
}

// wakeMonitor probes the dependencies when the connection is lost and when it is back, until ctx ends.
func (b *app) wakeMonitor(ctx context.Context) {
	changes := b.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED)
	defer b.nc.RemoveStatusListener(changes)
	for {
		select {
		case _, ok := <-changes:
			if !ok {
				return // closed for good
			}
			b.monitor.Wake()
		case <-ctx.Done():
			return
		}
	}
}
