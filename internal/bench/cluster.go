package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tailrace/tailrace/internal/wait"
)

// clusterVariable marks a process that runs three servers, in the directory that it names. Their processor time is that of the process.
const clusterVariable = "TAILRACE_BENCH_CLUSTER"

// clusterUsage is what the process writes when it has started, and then for each line that it reads.
type clusterUsage struct {
	URLs      []string      `json:"urls"`
	Processor time.Duration `json:"processor"` // used so far
	Error     string        `json:"error,omitempty"`
}

// cluster is the process of the servers.
type cluster struct {
	*child

	urls []string
}

func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c, err := startChild(ctx, clusterVariable+"="+dir)
	if err != nil {
		return nil, err
	}
	started := &cluster{child: c}
	first, err := started.next()
	if err != nil {
		return nil, errors.Join(err, c.wait(true))
	}
	started.urls = first.URLs
	return started, nil
}

// processor returns the processor time of the servers so far.
func (c *cluster) processor() (time.Duration, error) {
	if _, err := io.WriteString(c.in, "usage\n"); err != nil {
		return 0, err
	}
	u, err := c.next()
	return u.Processor, err
}

func (c *cluster) next() (u clusterUsage, err error) {
	if err = c.out.Decode(&u); err == nil && u.Error != "" {
		err = errors.New(u.Error)
	}
	if err != nil {
		err = fmt.Errorf("servers: %w", err)
	}
	return u, err
}

// runCluster runs three servers until in ends.
func runCluster(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	report := json.NewEncoder(out)
	urls, stop, err := startServers(ctx, dir)
	if err != nil {
		return report.Encode(clusterUsage{Error: err.Error()})
	}
	defer stop()
	for lines := bufio.NewScanner(in); ; {
		used, err := processorTime()
		if err != nil {
			return err
		}
		if err := report.Encode(clusterUsage{URLs: urls, Processor: used}); err != nil {
			return err
		}
		if !lines.Scan() {
			return lines.Err()
		}
	}
}

func startServers(ctx context.Context, dir string) (urls []string, stop func(), err error) {
	routes, err := freeRoutes(ctx, 3)
	if err != nil {
		return nil, nil, err
	}
	var servers []*server.Server
	stop = func() {
		for _, s := range servers {
			s.Shutdown()
		}
		for _, s := range servers {
			s.WaitForShutdown()
		}
	}
	for i, route := range routes {
		name := "n" + strconv.Itoa(i)
		o := &server.Options{
			ServerName: name, NoSigs: true, NoLog: true, Host: loopbackHost, Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: filepath.Join(dir, name), JetStreamMaxStore: 16 << 30, DisableJetStreamBanner: true, Routes: routes,
		}
		o.Cluster.Name, o.Cluster.Host, o.Cluster.NoAdvertise = "bench", loopbackHost, true
		if o.Cluster.Port, err = strconv.Atoi(route.Port()); err != nil {
			break
		}
		var s *server.Server
		if s, err = server.NewServer(o); err != nil {
			break
		}
		servers = append(servers, s)
		s.Start()
	}
	for _, s := range servers {
		for err == nil && (!s.ReadyForConnections(time.Second) || !s.JetStreamIsCurrent()) {
			err = wait.Sleep(ctx, 50*time.Millisecond)
		}
		if err == nil {
			urls = append(urls, s.ClientURL())
		}
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return urls, stop, nil
}

const loopbackHost = "127.0.0.1"

// freeRoutes returns the addresses of n free ports: each server must know those of the others before it starts.
func freeRoutes(ctx context.Context, n int) (routes []*url.URL, err error) {
	open := make([]io.Closer, 0, n) // until all ports are known, so that they differ
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(loopbackHost, "0"))
		if err != nil {
			return nil, err
		}
		open = append(open, l)
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: l.Addr().String()})
	}
	for _, l := range open {
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return routes, nil
}
