package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serveOps serves probes and metrics until ctx ends. A store that fails does not make the process unready: a restart would not repair it, and the lag is a metric.
func (c config) serveOps(ctx context.Context, reg *prometheus.Registry, log *slog.Logger) error {
	if c.OpsListen == "" {
		return nil
	}
	for _, collector := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := reg.Register(collector); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	for _, path := range []string{"/livez", "/healthz", "/readyz", "/startupz"} {
		mux.HandleFunc("GET "+path, alive)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", c.OpsListen)
	if err != nil {
		return usageError{errors.New(err.Error() + "; choose another address with --ops-listen, or none with --ops-listen=")}
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns the error
	defer stop()
	log.Info("ops server started", slog.String("url", "http://"+listener.Addr().String()))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
