package main

import (
	"io"
	"log/slog"
	"net"
	"net/http"
)

// leveledHandler is the handler of the log of a process, with the level, which changes at run time.
type leveledHandler struct {
	slog.Handler

	level *slog.LevelVar
}

func (c config) logger(w io.Writer) *slog.Logger {
	level := &slog.LevelVar{}
	level.Set(c.LogLevel)
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(leveledHandler{slog.NewJSONHandler(w, opts), level})
	}
	return slog.New(leveledHandler{slog.NewTextHandler(w, opts), level})
}

// maxLevelText bounds the body of a request that sets the level.
const maxLevelText = 64

// serveLogLevel serves /loglevel: GET returns the level, and PUT sets that of its body until the process ends. It is for clients on this host, such as
// `kubectl exec` and `kubectl port-forward`, and for those with a certificate: each line of the level debug costs time, and their number depends on other clients.
func (b *app) serveLogLevel(w http.ResponseWriter, r *http.Request) {
	handler, ok := b.log.Handler().(leveledHandler)
	if !ok {
		http.Error(w, "the level of this log is fixed", http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPut {
		if !isLocal(r.RemoteAddr) && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
			http.Error(w, "the level can be set from this host, or with a client certificate", http.StatusForbidden)
			return
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevelText))
		var level slog.Level
		if err == nil {
			err = level.UnmarshalText(text)
		}
		if err != nil {
			http.Error(w, "want debug, info, warn or error", http.StatusBadRequest)
			return
		}
		before := handler.level.Level()
		handler.level.Set(level)
		b.log.Warn("log level changed", "before", before.String(), "level", level.String()) // also shown at the levels above info
	}
	_, _ = io.WriteString(w, handler.level.Level().String()+"\n")
}

// isLocal reports whether an address is of this host.
func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && net.ParseIP(host).IsLoopback()
}
