package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/tailrace/tailrace/sseedge"
)

// opsConnections bounds the other listener, well inside the reserve.
const opsConnections = 64

// ops is what is asked by whoever runs the process: probes, figures, and
// profiles where they were asked for. It has a listener of its own, which
// answers when the clients have taken every connection of the main one and
// while that one drains. It knows of no session, so it may be reached by more
// than loopback without --trust-network.
type ops struct {
	server   *http.Server
	listener net.Listener
}

// newOps returns nil when the setting is empty.
func (b *backbone) newOps(ctx context.Context) (*ops, error) {
	if b.cfg.OpsListen == "" {
		return nil, nil //nolint:nilnil // none was asked for; the methods of none do nothing
	}
	if _, _, err := net.SplitHostPort(b.cfg.OpsListen); err != nil {
		return nil, usageError{fmt.Errorf("ops-listen is %q, want host:port", b.cfg.OpsListen)}
	}
	listener, err := sseedge.Listen(ctx, b.cfg.OpsListen, b.cfg.WriteTimeout)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --ops-listen, or none with --ops-listen=", err)
	}
	b.log.Info("ops", "url", "http://"+listener.Addr().String())
	return &ops{listener: netutil.LimitListener(listener, opsConnections)}, nil
}

// assemble decides what is served.
func (o *ops) assemble(b *backbone, probes http.Handler) {
	if o == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/", probes)
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.metrics, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(b.log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4,
	}))
	if b.cfg.Pprof {
		// Not the command line: there may be a password in it.
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	o.server = sseedge.NewServer(sseedge.ServerConfig{Log: b.log}, ownHosts(o.listener, mux))
}

// ownHosts keeps a listener on loopback from pages that have resolved a name of
// theirs to it.
func ownHosts(listener net.Listener, next http.Handler) http.Handler {
	if !onLoopback(listener) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r.Host) {
			http.Error(w, "this host is not served here", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// run serves until close.
func (o *ops) run() error {
	if o == nil {
		return nil
	}
	if err := o.server.Serve(o.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// runUntil is run for a role that has nothing else to end: it ends with ctx.
func (o *ops) runUntil(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = o.close() }) // run returns what is wrong
	defer stop()
	return o.run()
}

// close ends everything at once: there is nothing that must be finished.
func (o *ops) close() error {
	switch {
	case o == nil:
		return nil
	case o.server == nil:
		return o.listener.Close()
	}
	return o.server.Close()
}

// probes are those of a role without an edge.
func (b *backbone) probes() http.Handler {
	answer := func(w http.ResponseWriter, status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, "{\"ok\":%t}\n", status == http.StatusOK)
	}
	alive := func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := b.ready(r.Context()); err != nil {
			b.log.Info("not ready", "err", err)
			answer(w, http.StatusServiceUnavailable)
			return
		}
		answer(w, http.StatusOK)
	})
	return mux
}

// newMetrics is a registry with what every process tells of itself.
func newMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tailrace_build_info", Help: "1, with what was built.",
		ConstLabels: prometheus.Labels{"version": version, "commit": builtFrom()},
	})
	info.Set(1)
	registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// builtFrom is the commit that the release build named, or the Go command found.
func builtFrom() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}
