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
	return &RequestMetrics{prometheus.NewCounterVec(prometheus.CounterOpts(opts("requests_total", "Requests by route and status code.")), []string{"route", "code"})}
}

// Watch returns a ResponseWriter that counts the response to r under the route that name returns. A response that is counted already stays as it is.
func (m *RequestMetrics) Watch(w http.ResponseWriter, r *http.Request, name func(*http.Request) string) http.ResponseWriter {
	if _, counted := w.(*countedWriter); counted || m == nil {
		return w
	}
	ctx, route := r.Context(), name(r)
	return &countedWriter{statusWriter{ResponseWriter: w, onStatus: func(status int) {
		code := strconv.Itoa(status)
		if status >= http.StatusInternalServerError && ctx.Err() != nil {
			code = ClientClosed
		}
		m.WithLabelValues(route, code).Inc()
	}}}
}

// ClientClosed is the code under which a request is counted whose client disconnected before it had a status. The handler fails then with what its context
// caused, such as 503, which no client receives and which operators are to be alerted of.
const ClientClosed = "499"

// countedWriter is the ResponseWriter of Watch.
type countedWriter struct{ statusWriter }

// statusWriter notes the status of a response as soon as it is known: a stream lasts for days.
type statusWriter struct {
	http.ResponseWriter

	status   int              // 0 while it is not known
	onStatus func(status int) // called once; may be nil
}

func (w *statusWriter) WriteHeader(status int) {
	w.note(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.note(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// note notes the first status that is not that of an informational response.
func (w *statusWriter) note(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	if w.status = status; w.onStatus != nil {
		w.onStatus(status)
	}
}

// Unwrap is for http.ResponseController, which flushes and sets deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Collectors are one prometheus.Collector: they are registered together or not at all.
type Collectors []prometheus.Collector

// Describe implements prometheus.Collector.
func (c Collectors) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range c {
		one.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c Collectors) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c {
		one.Collect(ch)
	}
}

// seconds are the buckets of all durations.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "tailrace", Name: name, Help: help}
}

// Gauge returns the gauge tailrace_name.
func Gauge(name, help string, value func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts(name, help)), value)
}

// Counter returns the counter tailrace_name.
func Counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
}

// Counters returns the counter tailrace_name with one label. Its values exist from the start, so that the first event of a kind is an increase.
func Counters[T ~string](name, label, help string, values []T) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), []string{label})
	for _, value := range values {
		vec.WithLabelValues(string(value))
	}
	return vec
}

// Histogram returns the histogram tailrace_name of a duration in seconds.
func Histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "tailrace", Name: name, Help: help, Buckets: seconds})
}
