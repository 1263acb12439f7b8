package httpedge_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// A surface gets the requests for its paths, on hosts that are served; they are counted with those of the edge, once, and it is drained with the edge.
func TestMount(t *testing.T) {
	cfg := envConfig{tcp: true}
	cfg.edge.Host = httpkit.LoopbackHost
	w, reg := newCounted(t, cfg)
	routes := []httpkit.Route{
		{Name: "beside", Method: http.MethodGet, Path: "/beside", Public: true, Serve: func(w http.ResponseWriter, _ *http.Request, _ string) *httpkit.Problem {
			w.WriteHeader(http.StatusTeapot)
			return nil
		}},
		{Name: "beside", Method: http.MethodGet, Path: "/beside/health", Public: true, Serve: func(rw http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
			r.URL.Path = "/healthz" // handed on to the edge
			w.edge.ServeHTTP(rw, r)
			return nil
		}},
	}
	surface, err := w.edge.Shared().NewSurface(routes, httpkit.Options{OtherName: "beside_other", Respond: &httpkit.Responder{Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	w.edge.Mount(surface)
	for _, c := range []struct {
		host, path string
		want       int
	}{
		{"localhost", "/beside", http.StatusTeapot},
		{"localhost", "/beside/health", http.StatusOK},
		{"localhost", "/healthz", http.StatusOK},
		{"localhost", "/beside/../beside", http.StatusNotFound},
		{"localhost", "/other", http.StatusNotFound},
		{"evil.example", "/beside", http.StatusMisdirectedRequest},
	} {
		rec := httptest.NewRecorder()
		w.edge.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "http://"+c.host+c.path, nil))
		if rec.Code != c.want {
			t.Errorf("%s%s: %d, want %d", c.host, c.path, rec.Code, c.want)
		}
	}
	checkMetrics(t, reg, `requests_total{code="200",route="beside"} 1
requests_total{code="200",route="healthz"} 1
requests_total{code="404",route="other"} 2
requests_total{code="418",route="beside"} 1
requests_total{code="421",route="other"} 1
`, "requests")
	stream, leave, _ := surface.Streams.Enter(t.Context())
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.edge.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 streams still open") {
		t.Errorf("drain: %v", err)
	}
	if cause := context.Cause(stream); !errors.Is(cause, httpkit.ErrDrained) {
		t.Errorf("the stream has ended with %v", cause)
	}
}
