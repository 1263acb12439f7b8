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
