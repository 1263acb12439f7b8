package health

import (
	"encoding/json"
	"net/http"
)

// Condition is something that the process knows about itself.
type Condition struct {
	Name string // in the body of a probe
	Met  func() bool
}

// Probes are the probes of a process. No probe waits for anything outside of the process.
type Probes struct {
	Started []Condition // of /startupz, each of which stays met
	Ready   []Condition // of /readyz
	Monitor *Monitor    // its states are in the body of /readyz
}

// Handler serves /livez and its alias /healthz, /readyz and /startupz.
func (p Probes) Handler() http.Handler {
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { report{}.write(w) }
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /startupz", func(w http.ResponseWriter, _ *http.Request) {
		report{Checks: states(p.Started)}.write(w)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		report{Checks: states(p.Ready), Dependencies: p.Monitor.States()}.write(w)
	})
	return mux
}

func states(conditions []Condition) map[string]State {
	all := make(map[string]State, len(conditions))
	for _, c := range conditions {
		all[c.Name] = OK
		if !c.Met() {
			all[c.Name] = Failed
		}
	}
	return all
}

// report is the body of a probe.
type report struct {
	OK           bool             `json:"ok"` // all Checks are OK
	Checks       map[string]State `json:"checks,omitempty"`
	Dependencies map[string]State `json:"dependencies,omitempty"`
}

func (r report) write(w http.ResponseWriter) {
	status := http.StatusOK
	for _, state := range r.Checks {
		if state != OK {
			status = http.StatusServiceUnavailable
		}
	}
	r.OK = status == http.StatusOK
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(r) //nolint:errchkjson // the client has left
}
