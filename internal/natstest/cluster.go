package natstest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is a JetStream cluster of processes, numbered from 0.
type Cluster struct {
	nodes []*Process
	js    jetstream.JetStream // the cluster's own eyes
}

// StartCluster starts n servers and waits until they have a leader, know each
// other and have caught up: a stream with n replicas can be created at once.
// The package's TestMain must call Main.
func StartCluster(tb testing.TB, n int, opts ...Option) *Cluster {
	tb.Helper()
	routes := make([]int, n)
	for i := range routes {
		routes[i] = ReservePort(tb)
	}
	c := &Cluster{}
	for i := range n {
		cfg := newConfig(tb, opts)
		cfg.Name = nodeName(i)
		cfg.StoreDir = filepath.Join(cfg.StoreDir, cfg.Name)
		cfg.Listen = true
		cfg.Port = ReservePort(tb)
		cfg.Cluster = "test"
		cfg.ClusterPort = routes[i]
		cfg.Routes = routes
		c.nodes = append(c.nodes, newProcess(tb, cfg))
	}
	for _, node := range c.nodes {
		node.launch(tb)
	}
	c.awaitReady(tb)
	c.js = c.JetStream(tb)
	return c
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

// awaitReady waits until all nodes that run have caught up with a meta leader,
// and it knows of all of them, which it must before it can place replicas.
func (c *Cluster) awaitReady(tb testing.TB) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.run != nil {
			node.await(tb, "join the cluster", func(s state) bool { return s.Ready && s.Current })
		}
	}
	Await(tb, "the cluster to be complete", func(context.Context) error {
		running, known := 0, 0
		for _, node := range c.nodes {
			if node.run == nil {
				continue
			}
			running++
			if now, _, _ := node.run.state(); now.Leader {
				known = max(known, now.Peers)
			}
		}
		if known < running {
			return fmt.Errorf("the leader knows %d of %d nodes", known, running)
		}
		return nil
	})
}

// URL is the addresses of all nodes, with commas between.
func (c *Cluster) URL() string { return strings.Join(c.URLs(), ",") }

// URLs are the addresses of the nodes.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		urls[i] = node.URL
	}
	return urls
}

// Node is the process of node i. To kill it and bring it back, the methods of
// Cluster are better, because they wait for the cluster.
func (c *Cluster) Node(i int) *Process { return c.nodes[i] }

// Conn is a new connection to any of the nodes; it moves to another when its
// own goes down. It closes with the test.
func (c *Cluster) Conn(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, c.URL(), opts...)
}

// JetStream is JetStream on a new connection.
func (c *Cluster) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, c.Conn(tb, opts...))
}

// Kill sends SIGKILL to node i and waits for its end. A stream that it led has
// no leader for some seconds then.
func (c *Cluster) Kill(tb testing.TB, i int) {
	tb.Helper()
	c.nodes[i].Kill(tb)
}

// KillAll sends SIGKILL to all nodes that run before it waits for any, like a
// power cut that spares the disks' caches.
func (c *Cluster) KillAll(tb testing.TB) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.run != nil {
			node.signal(tb, syscall.SIGKILL)
		}
	}
	for _, node := range c.nodes {
		if node.run != nil {
			node.wait(tb)
		}
	}
}

// Restart starts node i on its files and its port, killing it first if it runs,
// and waits until it is a working part of the cluster again. The streams on it
// may still be catching up: see AwaitCurrent.
func (c *Cluster) Restart(tb testing.TB, i int) {
	tb.Helper()
	c.nodes[i].Restart(tb)
	c.awaitReady(tb)
}

// RestartAll starts all nodes that are down and waits until the cluster works.
func (c *Cluster) RestartAll(tb testing.TB) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.run == nil {
			node.launch(tb)
		}
	}
	c.awaitReady(tb)
}

// MetaLeader waits until there is a meta leader, which answers requests to
// create and change streams, and gives its number.
func (c *Cluster) MetaLeader(tb testing.TB) int {
	tb.Helper()
	found := -1
	Await(tb, "the cluster to have a meta leader", func(context.Context) error {
		for i, node := range c.nodes {
			if node.run == nil {
				continue
			}
			if now, _, _ := node.run.state(); now.Leader {
				found = i
				return nil
			}
		}
		return errors.New("no node says that it leads")
	})
	return found
}

// Leader waits until stream has a leader and gives its number. After a Kill
// that is a node that runs.
func (c *Cluster) Leader(tb testing.TB, stream string) int {
	tb.Helper()
	return c.awaitLeader(tb, stream, func(i int) bool { return c.nodes[i].run != nil })
}

func (c *Cluster) awaitLeader(tb testing.TB, stream string, ok func(node int) bool) int {
	tb.Helper()
	found := -1
	Await(tb, "stream "+stream+" to have a leader", func(ctx context.Context) error {
		info, err := c.streamInfo(ctx, stream)
		if err != nil {
			return err
		}
		for i := range c.nodes {
			if info.Cluster.Leader == nodeName(i) && ok(i) {
				found = i
				return nil
			}
		}
		return fmt.Errorf("leader is %q", info.Cluster.Leader)
	})
	return found
}

// StepDown makes the leader of stream hand over in an orderly way, as in an
// upgrade, and waits until another node leads; it gives the new leader's number.
func (c *Cluster) StepDown(tb testing.TB, stream string) int {
	tb.Helper()
	old := c.Leader(tb, stream)
	Await(tb, "stream "+stream+" to accept a step-down", func(ctx context.Context) error {
		_, err := c.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
		return err
	})
	return c.awaitLeader(tb, stream, func(i int) bool { return i != old })
}

// AwaitCurrent waits until stream has a leader and all its replicas have
// everything, so that whichever node is killed next, nothing is lost by the
// test's own doing.
func (c *Cluster) AwaitCurrent(tb testing.TB, stream string) {
	tb.Helper()
	Await(tb, "the replicas of stream "+stream+" to be current", func(ctx context.Context) error {
		info, err := c.streamInfo(ctx, stream)
		if err != nil {
			return err
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current || r.Offline || r.Lag > 0 {
				return fmt.Errorf("replica %s: current %v, offline %v, lag %d", r.Name, r.Current, r.Offline, r.Lag)
			}
		}
		if info.Cluster.Leader == "" || len(info.Cluster.Replicas)+1 != info.Config.Replicas {
			return fmt.Errorf("leader %q and %d of %d replicas", info.Cluster.Leader, len(info.Cluster.Replicas)+1, info.Config.Replicas)
		}
		return nil
	})
}

func (c *Cluster) streamInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	if info.Cluster == nil {
		return nil, fmt.Errorf("stream %s is not replicated", stream)
	}
	return info, nil
}
