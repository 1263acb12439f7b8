package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/projector/erase"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/sseedge/agentserver"
	"github.com/tailrace/tailrace/sseedge/chat"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/sseedge/native"
	"github.com/tailrace/tailrace/sseedge/view"
)

func runEdge(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, "edge", args, func(ctx context.Context, b *backbone) error {
		front, err := b.newFront(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.out, "Tailrace edge: %s\n", front.url())
		return b.withStreams(ctx, front.run)
	})
}

// front is the HTTP side of a process: the listener is open from the start, so
// that a taken port is an error at once and a probe has something to ask.
type front struct {
	b        *backbone
	hub      *hub.Hub
	edge     *sseedge.Edge
	chats    *chat.Service
	agents   *agentserver.Server
	bodies   *sseedge.Bodies
	server   *http.Server
	listener net.Listener
	ops      *ops
}

func (c config) limits() sseedge.Limits {
	return sseedge.Limits{Streams: c.MaxStreams, PerAddress: c.MaxStreamsPerAddress, PerSession: c.MaxStreamsPerSession}
}

func (b *backbone) newFront(ctx context.Context, more ...route) (*front, error) {
	listener, err := b.listen(ctx)
	if err != nil {
		return nil, err
	}
	ops, err := b.newOps(ctx)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	f := &front{b: b, listener: listener, ops: ops}
	if err := f.assemble(more); err != nil {
		return nil, errors.Join(err, listener.Close(), ops.close())
	}
	return f, nil
}

// route is a handler beside the edge's own, for the paths it matches.
type route struct {
	match   func(path string) bool
	handler http.Handler
}

func (f *front) assemble(more []route) error {
	reader, err := f.b.historyReader()
	if err != nil {
		return err
	}
	views, err := f.b.cfg.views()
	if err != nil {
		return err
	}
	layout := f.b.cfg.layout()
	f.hub, err = hub.New(hublog.Log{Reader: reader}, hublog.Feed{Reader: reader}, hub.Config{
		Encode: native.Encode, Encodings: withChats(view.Encodings(views, hub.Encode(native.Encode))),
		Partitions: f.b.cfg.Partitions, Partition: layout.Partition, Memory: f.b.cfg.HubBytes, Log: f.b.log,
	})
	if err != nil {
		return err
	}
	snapshots, err := f.b.pages(reader)
	if err != nil {
		return err
	}
	store, err := f.b.store()
	if err != nil {
		return err
	}
	cfg := sseedge.Config{
		Tenant: f.b.cfg.Tenant, Heartbeat: f.b.cfg.Heartbeat, Patience: f.b.cfg.WriteTimeout, Spread: f.b.cfg.Drain, Log: f.b.log,
		Checks:         []sseedge.Check{{Name: "nats", Ask: f.b.ready}},
		Limits:         f.b.cfg.limits(),
		TrustedProxies: f.b.cfg.TrustedProxies,
		Views:          views,
		Directory:      directory{store},
		Metrics:        f.b.metrics,
	}
	if f.loopback() {
		cfg.Host = sseedge.LoopbackHost
	}
	if f.b.cfg.AllowDelete {
		// Off by default on loopback too: a proxy on this machine connects from there,
		// for the whole world.
		if cfg.Eraser, err = erase.New(f.b.js, store, erase.Config{Layout: layout, Log: f.b.log}); err != nil {
			return err
		}
	}
	if f.edge, err = sseedge.New(f.hub, snapshots, cfg); err != nil {
		return err
	}
	f.bodies = sseedge.NewBodies(f.b.cfg.BodyBytes)
	if f.chats, err = f.newChats(snapshots); err != nil {
		return err
	}
	f.ops.assemble(f.b, f.edge.Probes())
	if f.chats != nil {
		more = append(more, route{match: chat.Match, handler: f.edge.Counted(chat.RouteName, f.chats)})
	}
	if f.agents, err = f.newAgentServer(snapshots); err != nil {
		return err
	}
	if f.agents != nil {
		more = append(more, route{match: f.agents.Match, handler: f.edge.Counted(f.agents.RouteName, f.agents)})
	}
	return f.assembleServer(more)
}

func (f *front) assembleServer(more []route) error {
	cfg := sseedge.ServerConfig{H2C: f.b.cfg.H2C, Patience: f.b.cfg.WriteTimeout, Log: f.b.log}
	if f.b.cfg.TLSCert != "" {
		var err error
		if cfg.TLS, err = sseedge.Certificates(f.b.cfg.TLSCert, f.b.cfg.TLSKey, f.b.log); err != nil {
			return err
		}
	}
	handler, err := sseedge.CORS(f.b.cfg.CORSOrigins, f.handler(more))
	if err != nil {
		return usageError{fmt.Errorf("cors-origins: %w", err)}
	}
	f.server = sseedge.NewServer(cfg, handler)
	return nil
}

// handler gives each route what it matches; everything else, and every path
// that is not clean, is the edge's to answer or refuse.
func (f *front) handler(routes []route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, route := range routes {
			if path.Clean(r.URL.Path) == r.URL.Path && route.match(r.URL.Path) && f.allowed(r) {
				route.handler.ServeHTTP(w, r)
				return
			}
		}
		f.edge.ServeHTTP(w, r)
	})
}

// allowed is the edge's own rule for the Host header.
func (f *front) allowed(r *http.Request) bool {
	return !f.loopback() || hostAllowed(r.Host)
}

// hostAllowed is the rule of listeners on loopback.
func hostAllowed(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return sseedge.LoopbackHost(host)
}

func (b *backbone) listen(ctx context.Context) (net.Listener, error) {
	host, _, err := net.SplitHostPort(b.cfg.Listen)
	if err != nil {
		return nil, usageError{fmt.Errorf("listen is %q, want host:port", b.cfg.Listen)}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && !b.cfg.TrustNetwork {
		return nil, fmt.Errorf("listen is %s: the edge asks nobody for credentials yet, so it serves loopback only; --trust-network says that a proxy in front of it does", b.cfg.Listen)
	}
	listener, err := sseedge.Listen(ctx, b.cfg.Listen, b.cfg.WriteTimeout)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	limit := b.cfg.MaxConnections
	if limit == 0 {
		limit = connectionLimit(descriptors())
	}
	if limit == 0 {
		return listener, nil
	}
	// Connections over the limit stay in the queue of the kernel, where they cost
	// no descriptor, until others are gone or the client gives up.
	return netutil.LimitListener(listener, limit), nil
}

func (f *front) loopback() bool { return onLoopback(f.listener) }

func onLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

func (f *front) url() string {
	scheme := "http://"
	if f.server.TLSConfig != nil {
		scheme = "https://"
	}
	return scheme + f.listener.Addr().String()
}

func (f *front) serve() error {
	if f.server.TLSConfig != nil {
		return f.server.ServeTLS(f.listener, "", "")
	}
	return f.server.Serve(f.listener)
}

// run serves until ctx ends, then drains: not ready and nobody new at once, the
// open streams cut one by one, then the requests in flight are finished.
func (f *front) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	hubCtx, stopHub := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHub()
	group.Go(func() error { return f.hub.Run(hubCtx) })
	group.Go(func() error {
		if err := f.serve(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(f.ops.run)
	group.Go(func() error {
		<-ctx.Done()
		// HTTP/2 clients would come back on the connections that they have.
		f.server.SetKeepAlivesEnabled(false)
		defer stopHub()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.b.cfg.Drain+5*time.Second)
		defer cancel()
		return errors.Join(f.drain(ending), f.server.Shutdown(ending), f.ops.close())
	})
	return group.Wait()
}

// drain ends the streams of all kinds at the same time.
func (f *front) drain(ctx context.Context) error {
	var group errgroup.Group
	if f.agents != nil {
		f.agents.Drain()
	}
	group.Go(func() error { return f.edge.Drain(ctx) })
	if f.chats != nil {
		group.Go(func() error { return f.chats.Drain(ctx) })
	}
	return group.Wait()
}
