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

// Cluster is a JetStream cluster of processes, numbered from 0. Node i has the tag
// "n<i>", for the placement of streams.
type Cluster struct {
	nodes []*Process
	js    jetstream.JetStream // connection of the cluster's own methods
}

// StartCluster starts n servers and waits until they have a leader, know each
// other and have caught up, so that a stream with n replicas can be created.
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

// awaitReady waits until all running nodes have caught up with a meta leader,
// the meta leader knows all of them, which is a precondition for placing
// replicas, and all routes between them are connected. Two servers that connect
// to each other at the same time close routes again and repeat them a second
// later. Until then a server drops what it has to send on the missing route, such
// as a request to create a stream.
func (c *Cluster) awaitReady(tb testing.TB) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.run != nil {
			node.await(tb, "join the cluster", func(s ProcessState) bool { return s.Ready && s.Current })
		}
	}
	Eventually(tb, "the cluster to be complete", func(context.Context) error {
		running, known := 0, 0
		for _, node := range c.nodes {
			if node.run != nil {
				running++
			}
		}
		for i, node := range c.nodes {
			if node.run == nil {
				continue
			}
			now, _, _ := node.run.state()
			if now.Leader {
				known = max(known, now.Peers)
			}
			if now.Routed < running-1 {
				return fmt.Errorf("node %d has all routes to %d of %d other nodes", i, now.Routed, running-1)
			}
		}
		if known < running {
			return fmt.Errorf("the leader knows %d of %d nodes", known, running)
		}
		return nil
	})
}

// URL returns the comma-separated addresses of all nodes.
func (c *Cluster) URL() string { return strings.Join(c.URLs(), ",") }

// URLs returns the addresses of the nodes.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		urls[i] = node.URL
	}
	return urls
}

// Node returns the process of node i. To kill or restart it, use the methods of
// Cluster, which wait for the cluster.
func (c *Cluster) Node(i int) *Process { return c.nodes[i] }

// Conn returns a new connection to any of the nodes, which moves to another
// node if its node goes down. It closes with the test.
func (c *Cluster) Conn(tb testing.TB, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	return Connect(tb, c.URL(), opts...)
}

// JetStream returns a JetStream context on a new connection.
func (c *Cluster) JetStream(tb testing.TB, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return newJetStream(tb, c.Conn(tb, opts...))
}

// Kill sends SIGKILL to node i and waits for its exit. The streams that it led
// have no leader for some seconds.
func (c *Cluster) Kill(tb testing.TB, i int) {
	tb.Helper()
	c.nodes[i].Kill(tb)
}

// KillAll sends SIGKILL to all running nodes and then waits for their exit.
// This simulates a power failure that does not lose the page cache.
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

// Restart starts node i on its files and its port, after killing it if it runs,
// and waits until it has rejoined the cluster. The streams on it may still be
// catching up, see AwaitCurrent.
func (c *Cluster) Restart(tb testing.TB, i int) {
	tb.Helper()
	c.nodes[i].Restart(tb)
	c.awaitReady(tb)
}

// RestartAll starts all nodes that are down and waits until the cluster is
// ready.
func (c *Cluster) RestartAll(tb testing.TB) {
	tb.Helper()
	for _, node := range c.nodes {
		if node.run == nil {
			node.launch(tb)
		}
	}
	c.awaitReady(tb)
}

// MetaLeader waits until there is a meta leader, which serves requests to
// create and change streams, and returns its index.
func (c *Cluster) MetaLeader(tb testing.TB) int {
	tb.Helper()
	found := -1
	Eventually(tb, "the cluster to have a meta leader", func(context.Context) error {
		for i, node := range c.nodes {
			if node.run == nil {
				continue
			}
			if now, _, _ := node.run.state(); now.Leader {
				found = i
				return nil
			}
		}
		return errors.New("no node reports that it leads")
	})
	return found
}

// Leader waits until stream has a leader and returns its index. After Kill this
// is a running node.
func (c *Cluster) Leader(tb testing.TB, stream string) int {
	tb.Helper()
	return c.awaitLeader(tb, stream, func(i int) bool { return c.nodes[i].run != nil })
}

func (c *Cluster) awaitLeader(tb testing.TB, stream string, ok func(node int) bool) int {
	tb.Helper()
	found := -1
	Eventually(tb, "stream "+stream+" to have a leader", func(ctx context.Context) error {
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

// StepDown makes the leader of stream transfer leadership, as in an upgrade,
// waits until another node leads, and returns its index.
func (c *Cluster) StepDown(tb testing.TB, stream string) int {
	tb.Helper()
	old := c.Leader(tb, stream)
	Eventually(tb, "stream "+stream+" to accept a step-down", func(ctx context.Context) error {
		_, err := c.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil)
		return err
	})
	return c.awaitLeader(tb, stream, func(i int) bool { return i != old })
}

// AwaitCurrent waits until stream has a leader and all its replicas are up to
// date. After that the test may kill any one node without losing data.
func (c *Cluster) AwaitCurrent(tb testing.TB, stream string) {
	tb.Helper()
	Eventually(tb, "the replicas of stream "+stream+" to be current", func(ctx context.Context) error {
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
