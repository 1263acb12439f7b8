package httpedge

import (
	"io"
	"net/http"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// Status is what an Edge knows about itself, for the probes of its process.
type Status struct {
	Running  bool  // Run was called and has not returned
	Started  bool  // each stream of the log was reached, and each feed that is opened without clients has been open since New
	Draining bool  // Drain was called
	Feeds    error // nil while no feed has failed, else why one is not open: its streams get no live records
}

// Status returns the present status. It asks no server, so that it can be called for each request of a probe.
//
// An edge is ready while it is Running and not Draining, whatever Feeds is: it serves the other partitions, keeps the open streams of this one, and tells
// new clients when to reconnect. A balancer without a ready edge would end each EventSource for good.
func (e *Edge) Status() Status {
	return Status{Running: e.running.Load(), Started: e.hub.Started(), Draining: e.streams.Draining(), Feeds: e.hub.Ready()}
}

// healthz reports that the process responds.
func (e *Edge) healthz(w http.ResponseWriter, _ *http.Request, _ string) *httpkit.Problem {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if _, err := io.WriteString(w, "{\"ok\":true}\n"); err != nil {
		e.cfg.Log.Debug("health report not delivered", "error", err)
	}
	return nil
}
