//go:build e2e && chaos

package e2e

import (
	"context"
	"net"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/subjects"
)

const (
	chaosStop    = 8 * time.Second // how long a process is stopped; more than the projector's heartbeat timeout and the lease of workers
	chaosClients = 200             // clients that one fault connects
)

// chaosFault is one fault. inject returns after it has removed the cause of the fault.
type chaosFault struct {
	name   string
	inject func()
	role   string // role of the process that it hits, a key of chaosEnv.probed; "" for none
}

// faults returns the faults that -chaos-only selects, in a constant order.
func (c *chaosEnv) faults(t *testing.T) []chaosFault {
	t.Helper()
	all := append(c.servers.faults(t),
		chaosFault{name: "lose all bytes between an edge and the server", inject: func() {
			c.proxy.Blackhole()
			<-time.After(outage)
			c.proxy.Restore()
		}},
		chaosFault{name: "revoke the credentials of all roles", inject: func() {
			c.servers.reload(t, roletest.Shared().RevokedConf)
			<-time.After(chaosStop)
			c.servers.reload(t, roletest.Shared().Conf)
		}},
		chaosFault{name: "fill the log", inject: func() {
			fillLog(t, c.recorders.js, true)
			<-time.After(chaosStop)
			fillLog(t, c.recorders.js, false)
		}},
		chaosFault{name: "cut every second client", inject: func() { c.balancer.cut() }},
		chaosFault{name: "many clients that read nothing", inject: func() { c.addSlowClients(t, false) }},
		chaosFault{name: "many clients that read slowly", inject: func() { c.addSlowClients(t, true) }},
	)
	names := []string{"edge 0", "edge 1", "the projector"}
	for i, p := range []*edgeProcess{c.edges[0], c.edges[1], c.projector} {
		all = append(all,
			chaosFault{name: "kill " + names[i], role: names[i], inject: func() {
				p.signal(t, syscall.SIGKILL)
				_ = p.cmd.Wait() // always an error: the process was killed
				p.start(t)
			}},
			chaosFault{name: "terminate " + names[i], role: names[i], inject: func() { p.terminate(t); p.start(t) }},
			chaosFault{name: "stop " + names[i], role: names[i], inject: func() {
				p.signal(t, syscall.SIGSTOP)
				<-time.After(chaosStop)
				p.signal(t, syscall.SIGCONT)
			}})
	}
	all = append(all, c.runs.faults(t)...)
	selected := all[:0]
	for _, f := range all {
		if regexp.MustCompile(*chaosOnly).MatchString(f.name) {
			selected = append(selected, f)
		}
	}
	if len(selected) == 0 {
		t.Fatalf("-chaos-only %q matches no fault", *chaosOnly)
	}
	return selected
}

// addSlowClients opens chaosClients streams for chaosStop. Each client reads 2.5 KiB per second, or nothing if reads is false.
func (c *chaosEnv) addSlowClients(t *testing.T, reads bool) {
	t.Helper()
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for i := range chaosClients {
		f := follower{addr: c.balancer.addr, root: c.recorders.writers[i%chaosSessions].root}
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if _, err := conn.Write([]byte(f.request())); err != nil {
			t.Fatal(err)
		}
	}
	end := time.After(chaosStop)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for buffer := make([]byte, 256); ; {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		for i := 0; reads && i < len(conns); i++ {
			_ = conns[i].SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = conns[i].Read(buffer) // the edge may have closed the connection
		}
	}
}

// fillLog limits the stream of the log to its current size, so that it rejects every record, or removes the limit.
func fillLog(t *testing.T, js jetstream.JetStream, full bool) {
	t.Helper()
	name := subjects.Layout{}.Stream(0)
	natstest.Eventually(t, "the edit of "+name, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		cfg := info.Config
		if full {
			cfg.MaxBytes, cfg.Discard = int64(info.State.Bytes), jetstream.DiscardNew
		} else {
			cfg.MaxBytes, cfg.Discard = -1, jetstream.DiscardOld
		}
		_, err = js.UpdateStream(ctx, cfg)
		return err
	})
}

// chaosServers are the NATS servers of the test.
type chaosServers interface {
	stack.Server

	urls() []string
	replicas() int
	reload(t *testing.T, text string)
	faults(t *testing.T) []chaosFault
}

func startChaosServers(t *testing.T) chaosServers {
	t.Helper()
	if *chaosCluster {
		return chaosNodes{natstest.StartCluster(t, 3)}
	}
	return chaosServer{natstest.StartProcess(t)}
}

// chaosServer is one server.
type chaosServer struct{ *natstest.Process }

func (s chaosServer) urls() []string { return []string{s.URL} }
func (s chaosServer) replicas() int  { return 1 }

func (s chaosServer) reload(t *testing.T, text string) {
	t.Helper()
	s.Reload(t, text)
}

func (s chaosServer) faults(t *testing.T) []chaosFault {
	t.Helper()
	return []chaosFault{
		{name: "kill the server", inject: func() { s.Restart(t) }},
		{name: "shut the server down", inject: func() { s.Shutdown(t); s.Start(t) }},
		{name: "stop the server", inject: func() {
			s.Stop(t)
			<-time.After(chaosStop)
			s.Cont(t)
		}},
	}
}

// chaosNodes is a cluster. Its faults hit the leader of the log.
type chaosNodes struct{ *natstest.Cluster }

func (s chaosNodes) urls() []string { return s.URLs() }
func (s chaosNodes) replicas() int  { return 3 }

func (s chaosNodes) reload(t *testing.T, text string) {
	t.Helper()
	for i := range s.replicas() {
		s.Node(i).Reload(t, text)
	}
}

func (s chaosNodes) faults(t *testing.T) []chaosFault {
	t.Helper()
	log := subjects.Layout{}.Stream(0)
	return []chaosFault{
		{name: "kill the leader of the log", inject: func() { s.Restart(t, s.Leader(t, log)) }},
		{name: "stop the leader of the log", inject: func() {
			node := s.Node(s.Leader(t, log))
			node.Stop(t)
			<-time.After(chaosStop)
			node.Cont(t)
		}},
		{name: "move the leader of the log", inject: func() { s.StepDown(t, log) }},
		{name: "kill all servers", inject: func() { s.KillAll(t); s.RestartAll(t) }},
	}
}
