// Command natsserver is the NATS server of package natstest: a process, built without the race detector, which ends with the process that started it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func main() { os.Exit(run(os.Stdin, os.Stdout)) }

// run runs a server until the end of in, from which it reads the configuration and then changed ones. It returns the exit code.
func run(in io.Reader, out io.Writer) int {
	rep := &reporter{enc: json.NewEncoder(out)}
	configs := json.NewDecoder(in)
	var cfg natstest.ProcessConfig
	if err := configs.Decode(&cfg); err != nil {
		rep.report(natstest.ProcessReport{Fatal: fmt.Sprintf("read the configuration: %v", err)})
		return 2
	}
	srv, err := start(cfg, &log{rep: rep})
	if err != nil {
		rep.report(natstest.ProcessReport{Fatal: err.Error()})
		return 1
	}
	parentGone := make(chan struct{})
	var reloads atomic.Int32
	go func() { // ends with the process at the latest
		defer close(parentGone)
		for ; configs.Decode(&cfg) == nil; reloads.Add(1) { // an error means the end, too
			if err := reload(srv, cfg); err != nil {
				rep.report(natstest.ProcessReport{Fatal: err.Error()})
			}
		}
	}()
	watchState(srv, rep, &reloads, parentGone)
	srv.Shutdown()
	srv.WaitForShutdown()
	return 0
}

// start returns when the server accepts connections, or the reason why it does not.
func start(cfg natstest.ProcessConfig, l *log) (*server.Server, error) {
	opts, err := optionsOf(cfg)
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	srv.SetLoggerV2(l, false, false, false)
	srv.Start()
	if reason := l.takeFatal(); reason != "" {
		err = errors.New(reason)
	} else if !srv.ReadyForConnections(natstest.WaitTimeout) {
		err = fmt.Errorf("not ready for connections after %s", natstest.WaitTimeout)
	} else if !cfg.NoJetStream && !srv.JetStreamEnabled() {
		err = errors.New("JetStream did not start")
	}
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, err
	}
	return srv, nil
}

func reload(srv *server.Server, cfg natstest.ProcessConfig) error {
	opts, err := optionsOf(cfg)
	if err != nil {
		return err
	}
	return srv.ReloadOptions(opts)
}

// optionsOf returns the options of nats-server for c.
func optionsOf(c natstest.ProcessConfig) (*server.Options, error) {
	o := &server.Options{}
	if c.Text != "" {
		if err := o.ProcessConfigString(c.Text); err != nil {
			return nil, fmt.Errorf("server configuration: %w", err)
		}
	}
	o.ServerName = c.Name
	o.NoSigs = true // the test handles signals
	o.Host = natstest.Loopback
	o.Port = c.Port
	o.JetStream = !c.NoJetStream
	o.DisableJetStreamBanner = true
	o.StoreDir = c.StoreDir
	o.JetStreamMaxMemory = 256 << 20
	o.JetStreamMaxStore = c.MaxStore
	if c.MaxPayload > 0 {
		o.MaxPayload = c.MaxPayload
	}
	if c.Cluster != "" {
		joinCluster(o, c)
	}
	return o, nil
}

func joinCluster(o *server.Options, c natstest.ProcessConfig) {
	o.Tags.Add(c.Name) // so that a stream can be placed
	o.Cluster.Name = c.Cluster
	o.Cluster.Host = natstest.Loopback
	o.Cluster.Port = c.ClusterPort
	o.Cluster.NoAdvertise = true // clients use only the addresses they were given, so that they cannot bypass a Proxy
	for _, port := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: natstest.Loopback + ":" + strconv.Itoa(port)})
	}
}

// routesPerMember is the number of routes between two servers: a pool, each of whose connections carries some of the accounts, and one of the system account.
const routesPerMember = server.DEFAULT_ROUTE_POOL_SIZE + 1

// watchState reports each change of the state, until done. It polls because the
// server does not report when a leader is elected.
func watchState(srv *server.Server, rep *reporter, reloads *atomic.Int32, done <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last natstest.ProcessState
	for {
		now := natstest.ProcessState{Ready: true, Current: srv.JetStreamIsCurrent(), LeafNodes: srv.NumLeafNodes(), Reloads: reloads.Load()}
		if srv.JetStreamIsClustered() { // JetStreamClusterPeers panics on a single server
			now.Leader = srv.JetStreamIsLeader()
			now.Peers = len(srv.JetStreamClusterPeers())
			now.Routed = srv.NumRoutes() / routesPerMember
		}
		if now != last {
			last = now
			rep.report(natstest.ProcessReport{State: &now})
		}
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// reporter writes reports. Several goroutines of the server use it.
type reporter struct {
	mu  sync.Mutex // guards enc
	enc *json.Encoder
}

func (s *reporter) report(r natstest.ProcessReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.enc.Encode(r) //nolint:errchkjson // if the parent is gone, standard input ends as well
}

// log implements server.Logger: it sends the log to the parent. The default logger of nats-server ends the process on a fatal line; this one records it.
type log struct {
	rep *reporter

	mu    sync.Mutex // guards fatal
	fatal string     // first fatal line: the reason of a failed start
}

// takeFatal returns the first fatal line since the last call, or "".
func (l *log) takeFatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.fatal
	l.fatal = ""
	return line
}

func (l *log) send(level, format string, v []any) {
	l.rep.report(natstest.ProcessReport{Log: level + " " + fmt.Sprintf(format, v...)})
}

func (l *log) Fatalf(format string, v ...any) {
	l.mu.Lock()
	if l.fatal == "" {
		l.fatal = "FTL " + fmt.Sprintf(format, v...)
	}
	l.mu.Unlock()
	l.send("FTL", format, v)
}

func (l *log) Noticef(format string, v ...any) { l.send("INF", format, v) }
func (l *log) Warnf(format string, v ...any)   { l.send("WRN", format, v) }
func (l *log) Errorf(format string, v ...any)  { l.send("ERR", format, v) }
func (l *log) Debugf(string, ...any)           {}
func (l *log) Tracef(string, ...any)           {}
