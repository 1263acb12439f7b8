package httpkit

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// A request has one line when it has ended, also if its handler aborts the connection or hands it to another Edge, and without the path and the query.
func TestAccessLog(t *testing.T) {
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  map[string]any
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, "four")
		}, map[string]any{"status": 418.0, "bytes": 4.0}},
		"implicit status": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, map[string]any{"status": 200.0, "bytes": 2.0}},
		"stream": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "event")
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			LogStreamEnd(r.Context(), chunk.RootSession("acme", "s1"), EndSlow, slog.Int("events", 7))
			panic(http.ErrAbortHandler)
		}, map[string]any{"status": 200.0, "reason": "slow", "session": "/acme/s1/s1", "events": 7.0}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			log := slog.New(slog.NewJSONHandler(&out, nil))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/secret?ticket=secret", nil)
			if IsLogged(r) {
				t.Error("logged before it was served")
			}
			func() {
				defer func() { _ = recover() }() // as net/http does
				LogAccess(log, nil, "chat", httptest.NewRecorder(), r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !IsLogged(r) {
						t.Error("not logged while it is served")
					}
					tt.serve(w, r)
				}))
			}()
			var line map[string]any
			if err := json.Unmarshal([]byte(out.String()), &line); err != nil || strings.Contains(out.String(), "secret") {
				t.Fatalf("%s: %v", out.String(), err)
			}
			tt.want["msg"], tt.want["method"], tt.want["route"], tt.want["address"] = "request ended", "POST", "chat", "192.0.2.1"
			for key, value := range tt.want {
				if line[key] != value {
					t.Errorf("%s is %v, want %v", key, line[key], value)
				}
			}
			if d, ok := line["duration"].(float64); !ok || d < 0 {
				t.Errorf("duration %v", line["duration"])
			}
		})
	}
}
