package main

import (
	"context"
	"crypto/tls"
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

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/natsauth"
)

// opsConnections limits the connections of the ops listener, well below the
// reserve.
const opsConnections = 64

// ops serves the operator: probes, metrics, and profiles if enabled. It has a
// separate listener, which responds while clients use every connection of the
// main listener and while that one drains. It serves no session data, so it may
// be reachable from other hosts without --trust-network.
type ops struct {
	server   *http.Server
	listener net.Listener
	tls      *tls.Config // nil without TLS
}

// newOps returns nil if the setting is empty.
func (b *app) newOps(ctx context.Context) (*ops, error) {
	if b.cfg.OpsListen == "" {
		return nil, nil //nolint:nilnil // disabled; the methods of a nil *ops have no effect
	}
	if _, _, err := net.SplitHostPort(b.cfg.OpsListen); err != nil {
		return nil, usageError{fmt.Errorf("ops-listen is %q, want host:port", b.cfg.OpsListen)}
	}
	var secure *tls.Config
	if b.cfg.OpsClientCA != "" {
		var err error
		if secure, err = tlsConfig(b.cfg.TLSCert, b.cfg.TLSKey, b.cfg.OpsClientCA, b.log); err != nil {
			return nil, usageError{fmt.Errorf("ops-tls: %w", err)}
		}
	}
	listener, err := httpkit.Listen(ctx, b.cfg.OpsListen, b.cfg.WriteTimeout)
	if err != nil {
		err = fmt.Errorf("%w; choose another address with --ops-listen, or none with --ops-listen=", err)
		if b.role == natsauth.Operator || b.role == natsauth.Edge {
			err = b.cfg.inUse(ctx, err, b.role == natsauth.Operator)
		}
		return nil, err
	}
	o := &ops{listener: httpkit.LimitConnections(listener, opsConnections, nil, nil), tls: secure}
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	b.log.Info("ops server started", "url", scheme+listener.Addr().String())
	return o, nil
}

// assemble registers the handlers. All conditions must have been added.
func (o *ops) assemble(b *app) {
	if o == nil {
		return
	}
	certified := certifiedOnly(b.cfg.OpsClientCA != "")
	mux := http.NewServeMux()
	mux.Handle("/", b.probes().Handler())
	mux.Handle("GET /metrics", certified(promhttp.HandlerFor(append(prometheus.Gatherers{b.metrics}, b.more...), promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(b.log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4,
	})))
	mux.Handle("GET /loglevel", certified(http.HandlerFunc(b.serveLogLevel)))
	mux.Handle("PUT /loglevel", certified(http.HandlerFunc(b.serveLogLevel)))
	if b.cfg.Pprof {
		// The command line is not served: it may contain a password.
		mux.Handle("GET /debug/pprof/", certified(http.HandlerFunc(pprof.Index)))
		mux.Handle("GET /debug/pprof/profile", certified(http.HandlerFunc(pprof.Profile)))
		mux.Handle("GET /debug/pprof/trace", certified(http.HandlerFunc(pprof.Trace)))
	}
	o.server = httpkit.NewServer(httpkit.ServerConfig{TLS: o.tls, Log: b.log}, ownHosts(o.listener, mux))
}

// certifiedOnly rejects requests of clients without a verified certificate, if it is required. The listener accepts such clients, because those that probe a
// process, such as the kubelet, have no certificate.
func certifiedOnly(required bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if required && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
				http.Error(w, "client certificate required", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// ownHosts rejects requests to a listener on loopback from web pages that
// resolve their own name to it (DNS rebinding).
func ownHosts(listener net.Listener, next http.Handler) http.Handler {
	if !onLoopback(listener) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r.Host) {
			http.Error(w, "host not served", http.StatusMisdirectedRequest)
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
	if err := serve(o.server, o.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// runUntil is run for a role without other servers: it ends with ctx.
func (o *ops) runUntil(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = o.close() }) // run returns the error
	defer stop()
	return o.run()
}

// close ends everything immediately: no request must be completed.
func (o *ops) close() error {
	switch {
	case o == nil:
		return nil
	case o.server == nil:
		return o.listener.Close()
	}
	return o.server.Close()
}

// newMetrics returns a registry with the metrics of every process.
func newMetrics(role natsauth.Role) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tailrace_build_info", Help: "Constant 1, labeled with the build, and with the role whose credentials the process has (operator: tailrace up).",
		ConstLabels: prometheus.Labels{"version": programVersion(), "commit": builtFrom(), "role": string(role)},
	})
	info.Set(1)
	registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// builtFrom returns the commit that the Go command recorded.
func builtFrom() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}
