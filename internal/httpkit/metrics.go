package httpkit

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// RequestMetrics counts requests by route and status. A nil *RequestMetrics counts nothing.
type RequestMetrics struct{ *prometheus.CounterVec }

// NewRequestMetrics returns the counter tailrace_requests_total, which the caller registers.
func NewRequestMetrics() *RequestMetrics {
	return &RequestMetrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "tailrace", Name: "requests_total", Help: "Requests by route and status code.",
	}, []string{"route", "code"})}
}

// Watch returns a ResponseWriter that counts the response to r under the route that name returns. A response that is counted already stays as it is.
func (m *RequestMetrics) Watch(w http.ResponseWriter, r *http.Request, name func(*http.Request) string) http.ResponseWriter {
	if _, counted := w.(*statusRecorder); counted || m == nil {
		return w
	}
	return &statusRecorder{ResponseWriter: w, m: m, route: name(r)}
}

// statusRecorder counts a request as soon as its status is known: a stream lasts for days.
type statusRecorder struct {
	http.ResponseWriter

	m     *RequestMetrics
	route string
	known bool
}

func (w *statusRecorder) WriteHeader(status int) {
	if !w.known && status >= http.StatusOK {
		w.known = true
		w.m.WithLabelValues(w.route, strconv.Itoa(status)).Inc()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusRecorder) Write(b []byte) (int, error) {
	if !w.known {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController, which flushes and sets deadlines.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
