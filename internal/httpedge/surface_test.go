package httpedge_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// beside serves the paths below /beside, and hands one of them on to the edge.
type beside struct {
	edge    *httpedge.Edge
	drained chan struct{}
}

func (b beside) Match(path string) bool { return strings.HasPrefix(path, "/beside") }

func (b beside) Policies() []httpkit.Policy { return nil }

func (b beside) RouteName(*http.Request) string { return "beside" }

func (b beside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/beside/health" {
		r.URL.Path = "/healthz"
		b.edge.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(http.StatusTeapot)
}

var errStillOpen = errors.New("still open")

func (b beside) CloseRevoked() {}

func (b beside) Drain(context.Context) error {
	close(b.drained)
	return errStillOpen
}

// A surface gets the requests for its paths, on hosts that are served; they are counted with those of the edge, once, and it is drained with the edge.
func TestMount(t *testing.T) {
	cfg := envConfig{tcp: true}
	cfg.edge.Host = httpkit.LoopbackHost
	w, reg := newCounted(t, cfg)
	surface := beside{w.edge, make(chan struct{})}
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
	if err := w.edge.Drain(t.Context()); !errors.Is(err, errStillOpen) {
		t.Errorf("drain: %v", err)
	}
	<-surface.drained
}
