package bench

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/internal/wait"
)

// cluster is a process for each server.
type cluster struct {
	servers []*site
	urls    []string
}

// startCluster starts so many servers, which form a cluster if there is more than one.
func startCluster(ctx context.Context, dir string, servers int) (_ *cluster, err error) {
	var routes []string
	if servers > 1 {
		if routes, err = freeRoutes(ctx, servers); err != nil {
			return nil, err
		}
	}
	c := &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop(true))
		}
	}()
	for i := range servers {
		name := "n" + strconv.Itoa(i)
		spec := serverSpec{Name: name, Dir: filepath.Join(dir, strconv.Itoa(servers)+"-servers", name), Routes: routes}
		if routes != nil {
			spec.Route = routes[i]
		}
		s, err := startSite(ctx, siteServer, spec)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, s)
	}
	for _, s := range c.servers { // all have been started: each waits for a majority
		if err := s.await(); err != nil {
			return nil, err
		}
		c.urls = append(c.urls, s.address)
	}
	return c, nil
}

// ensure creates the streams on servers that may still be electing a leader.
func ensure(ctx context.Context, js jetstream.JetStream, cfg topology.Config) error {
	for deadline := time.Now().Add(electionTimeout); ; {
		attempt, cancel := context.WithTimeout(ctx, electionTimeout/2)
		err := topology.Ensure(attempt, js, cfg)
		cancel()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// processor returns the processor time of the servers so far.
func (c *cluster) processor() (time.Duration, error) { return processorOf(c.servers) }

// stop stops the servers. Their exit status is ignored if something failed before.
func (c *cluster) stop(failed bool) error { return stopSites(c.servers, failed) }

// processorOf returns the processor time of the processes so far.
func processorOf(sites []*site) (time.Duration, error) {
	sum := time.Duration(0)
	for _, s := range sites {
		used, err := s.processor()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// stopSites stops the processes. After a failure it kills them: a server that waits for others to start does not notice the end of its input.
func stopSites(sites []*site, failed bool) error {
	var errs []error
	for _, s := range sites {
		if failed {
			_ = s.cmd.Process.Kill() // it may have exited
		}
		errs = append(errs, s.wait(failed))
	}
	return errors.Join(errs...)
}

// serverSpec is the specification of a server.
type serverSpec struct {
	Name   string   `json:"name"`
	Dir    string   `json:"dir"`
	Routes []string `json:"routes"` // URLs of all servers, none for a single server
	Route  string   `json:"route"`  // its own
}

func (s serverSpec) serve(ctx context.Context) (address string, stop func(), err error) {
	o := &server.Options{
		ServerName: s.Name, NoSigs: true, NoLog: true, Host: loopbackHost, Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: s.Dir, JetStreamMaxStore: 16 << 30, DisableJetStreamBanner: true,
	}
	for _, route := range s.Routes {
		u, err := url.Parse(route)
		if err != nil {
			return "", nil, err
		}
		if o.Routes = append(o.Routes, u); route != s.Route {
			continue
		}
		o.Cluster.Name, o.Cluster.Host, o.Cluster.NoAdvertise = "bench", loopbackHost, true
		if o.Cluster.Port, err = strconv.Atoi(u.Port()); err != nil {
			return "", nil, err
		}
	}
	running, err := server.NewServer(o)
	if err != nil {
		return "", nil, err
	}
	running.Start()
	ctx, cancel := context.WithTimeout(ctx, electionTimeout) // so that the process ends if the others do not start
	defer cancel()
	stop = func() {
		running.Shutdown()
		running.WaitForShutdown()
	}
	for err == nil && (!running.ReadyForConnections(time.Second) || !running.JetStreamIsCurrent()) {
		err = wait.Sleep(ctx, 50*time.Millisecond)
	}
	if err != nil {
		stop()
		return "", nil, errors.Join(errServerNotReady, err)
	}
	return running.ClientURL(), stop, nil
}

var errServerNotReady = errors.New("JetStream did not start, or the servers have no leader")

const (
	loopbackHost    = "127.0.0.1"
	electionTimeout = 2 * time.Minute // far more than servers need to elect leaders
)

// freeRoutes returns the URLs of n free ports: each server must know those of the others before it starts.
func freeRoutes(ctx context.Context, n int) (routes []string, err error) {
	open := make([]io.Closer, 0, n) // until all ports are known, so that they differ
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopbackHost, "0"))
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		routes = append(routes, "nats-route://"+l.Addr().String())
	}
	for _, l := range open {
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return routes, nil
}
