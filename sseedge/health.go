package sseedge

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Probes answers /livez, /readyz and /healthz whatever the host is called, for a
// listener apart from the one that clients can fill.
func (e *Edge) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", e.healthz)
	mux.HandleFunc("GET /healthz", e.healthz)
	mux.HandleFunc("GET /readyz", e.readyz)
	return mux
}

// healthz says that the process answers. It asks nobody.
func (e *Edge) healthz(w http.ResponseWriter, _ *http.Request) {
	e.answer(w, http.StatusOK, health{OK: true})
}

// readyz says whether this edge is of use, check by check. Why one fails is for
// the log, not for whoever can reach the port.
func (e *Edge) readyz(w http.ResponseWriter, r *http.Request) {
	report := health{OK: true, Checks: make(map[string]string)}
	fail := func(name string, err error) {
		report.OK = false
		report.Checks[name] = "failed"
		e.cfg.Log.Info("not ready", "check", name, "err", err)
	}
	report.Checks["hub"] = "ok"
	if err := e.hub.Ready(); err != nil {
		fail("hub", err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	for _, check := range e.cfg.Checks {
		report.Checks[check.Name] = "ok"
		if err := check.Ask(ctx); err != nil {
			fail(check.Name, err)
		}
	}
	report.Checks["draining"] = "ok"
	if e.isDraining() {
		fail("draining", errDrained)
	}
	status := http.StatusOK
	if !report.OK {
		status = http.StatusServiceUnavailable
	}
	e.answer(w, status, report)
}

// askTime is how long all checks may take. Whoever asks waits for a second, as a
// rule; while NATS does not answer, the answer of /readyz must come before that.
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
		e.cfg.Log.Debug("health was not read", "err", err)
	}
}
