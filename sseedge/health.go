package sseedge

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// Probes returns a handler of /livez, /readyz and /healthz for any host name. It is for a listener of its own, because clients may use all connections of the
// other one.
func (e *Edge) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", e.healthz)
	mux.HandleFunc("GET /healthz", e.healthz)
	mux.HandleFunc("GET /readyz", e.readyz)
	return mux
}

func (e *Edge) serveHealthz(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	e.healthz(w, r)
	return nil
}

func (e *Edge) serveReadyz(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	e.readyz(w, r)
	return nil
}

// healthz reports that the process responds. It checks no dependency.
func (e *Edge) healthz(w http.ResponseWriter, _ *http.Request) {
	e.answer(w, http.StatusOK, health{OK: true})
}

// readyz reports whether this edge is ready, check by check. The cause of a failure is only logged.
func (e *Edge) readyz(w http.ResponseWriter, r *http.Request) {
	report := health{OK: true, Checks: make(map[string]string)}
	fail := func(name string, err error) {
		report.OK = false
		report.Checks[name] = "failed"
		e.cfg.Log.Info("not ready", "check", name, "error", err)
	}
	report.Checks["hub"] = "ok"
	if err := e.hub.Ready(); err != nil {
		fail("hub", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	for _, check := range e.cfg.Checks {
		report.Checks[check.Name] = "ok"
		if err := check.Probe(ctx); err != nil {
			fail(check.Name, err)
		}
	}
	report.Checks["draining"] = "ok"
	if e.streams.Draining() {
		fail("draining", httpkit.ErrDrained)
	}
	status := http.StatusOK
	if !report.OK {
		status = http.StatusServiceUnavailable
	}
	e.answer(w, status, report)
}

// askTime bounds all checks together. Probes usually time out after a second; /readyz must respond before that also while NATS does not respond.
const askTime = 800 * time.Millisecond

type health struct {
	OK     bool              `json:"ok"`
	Checks map[string]string `json:"checks,omitempty"`
}

func (e *Edge) answer(w http.ResponseWriter, status int, report health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(report); err != nil {
		e.cfg.Log.Debug("health report not delivered", "error", err)
	}
}
