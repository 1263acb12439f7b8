package httpkit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// A handler whose client has disconnected fails with whatever its context causes. The edge has not failed, and does not count it.
func TestClientLeavesBeforeStatus(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		m := NewRequestMetrics()
		arrived, answered := make(chan struct{}), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w = m.Watch(w, r, func(*http.Request) string { return "events" })
			if r.URL.Path == "/leave" {
				defer close(answered)
				close(arrived)
				<-r.Context().Done()
			}
			w.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-arrived
			leave()
		}()
		for path, ctx := range map[string]context.Context{"/leave": ctx, "/stay": t.Context()} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := server.Client().Do(r); err == nil {
				_ = resp.Body.Close()
			}
		}
		<-answered
		for _, code := range []string{strconv.Itoa(status), ClientClosed} {
			if got := testutil.ToFloat64(m.WithLabelValues("events", code)); got != 1 {
				t.Errorf("%d: counted %v requests with code %s, want 1", status, got, code)
			}
		}
	}
}
