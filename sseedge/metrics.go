package sseedge

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// metrics is what an edge and its hub count. Labels have few values, all of them
// ours: no session, no user, no tenant. A nil *metrics counts nothing; that is
// what an edge without Config.Metrics has.
//
// What is sent is counted batch by batch, and events without their type: a batch
// is bytes that all clients share, and to look into it once for each of them
// would cost more than it tells.
type metrics struct {
	hub *hub.Hub

	connections prometheus.GaugeFunc
	connects    *prometheus.CounterVec
	disconnects *prometheus.CounterVec
	resumes     *prometheus.CounterVec
	requests    *prometheus.CounterVec
	events      prometheus.Counter
	bytes       prometheus.Counter
	delivery    prometheus.Histogram
	catchup     prometheus.Histogram
}

const namespace = "tailrace"

// seconds are the buckets of all durations.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// newMetrics registers the metrics of an edge.
func newMetrics(reg prometheus.Registerer, e *Edge) (*metrics, error) {
	m := &metrics{
		hub:         e.hub,
		connections: prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("edge_connections", "Event streams that are open.")), e.connections),
		connects: counters("edge_connects_total", "outcome",
			"Requests for an event stream: opened, ended (a complete session, 204), or the code of the refusal.", connectOutcomes),
		disconnects: counters("edge_disconnects_total", "reason",
			"Event streams that were opened and are over: end (the session is complete), client (it left), slow, drain or error.", endings),
		resumes: counters("edge_resumes_total", "outcome",
			"Places in a session that were asked for: exact, or the reason why the client was moved (also later, in the middle of a stream).", resumeOutcomes),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts(opts("requests_total", "Requests by route and status code.")), []string{"route", "code"}),
		events:   prometheus.NewCounter(prometheus.CounterOpts(opts("edge_events_sent_total", "Events sent on event streams."))),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts(opts("edge_bytes_sent_total", "Bytes of these events."))),
		delivery: histogram("edge_delivery_seconds", "From when the log stored the newest record of a batch to when its write returned. Live batches only; the clocks of two machines."),
		catchup:  histogram("edge_catchup_seconds", "From when a stream was opened to when it had sent what was there before; not of streams that had nothing to catch up with."),
	}
	if err := reg.Register(m); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// The values of the labels, there from the start, so that the first event of a
// kind is a rise and not a beginning.
var (
	connectOutcomes = []string{
		"opened", "ended", outcome(noStream), outcome(draining), outcome(unavailable),
		outcome(edgeFull), outcome(tenantFull), outcome(addressFull), outcome(sessionFull),
	}
	resumeOutcomes = []string{resumeExact, resumeTruncated, resumeEpoch, resumeFuture, resumeUnknown}
	endings        = []string{endClean, endClient, endSlow, endDrain, endError}
)

const (
	resumeExact     = "exact"
	resumeTruncated = "truncated" // the log does not hold what follows any more
	resumeEpoch     = "epoch"     // it is a place in a stream that is no more
	resumeFuture    = "future"
	resumeUnknown   = "unknown" // of another session, or of none
)

// outcome is the code of a refusal as a label.
func outcome(p *problem) string { return strings.ToLower(p.Code) }

func (m *metrics) connected(outcome string) {
	if m != nil {
		m.connects.WithLabelValues(outcome).Inc()
	}
}

// resumed counts that a client goes on where it asked to.
func (m *metrics) resumed() {
	if m != nil {
		m.resumes.WithLabelValues(resumeExact).Inc()
	}
}

// moved counts that a client was told to go on elsewhere.
func (m *metrics) moved(reason chunk.TruncationReason) {
	if m == nil {
		return
	}
	outcome := resumeUnknown
	switch reason {
	case chunk.TruncatedExpired, chunk.TruncatedCleanup, chunk.TruncatedGap:
		outcome = resumeTruncated
	case chunk.TruncatedRecreated:
		outcome = resumeEpoch
	case chunk.TruncatedFuture:
		outcome = resumeFuture
	case chunk.TruncatedForeign:
	}
	m.resumes.WithLabelValues(outcome).Inc()
}

// Counted is a handler beside the Edge whose requests are counted with those of
// the Edge, under the route that name gives them: one of few.
func (e *Edge) Counted(name func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(e.metrics.watch(w, r, name), r)
	})
}

// watch returns a ResponseWriter that counts the answer to a request. What a
// handler beside the Edge hands on to it is counted there.
func (m *metrics) watch(w http.ResponseWriter, r *http.Request, name func(*http.Request) string) http.ResponseWriter {
	if _, counted := w.(*watched); counted || m == nil {
		return w
	}
	return &watched{ResponseWriter: w, m: m, route: name(r)}
}

// watched counts a request when its status is known: a stream lasts for days.
type watched struct {
	http.ResponseWriter

	m     *metrics
	route string
	known bool
}

func (w *watched) WriteHeader(status int) {
	if !w.known && status >= http.StatusOK {
		w.known = true
		w.m.requests.WithLabelValues(w.route, strconv.Itoa(status)).Inc()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	if !w.known {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController, which flushes and sets deadlines.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Describe and Collect make it one prometheus.Collector, which is registered as
// a whole or not at all.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, part := range m.parts() {
		part.Describe(ch)
	}
	for _, d := range hubStats {
		ch <- d.desc
	}
}

// Collect asks the hub, once.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, part := range m.parts() {
		part.Collect(ch)
	}
	stats := m.hub.Stats()
	for _, d := range hubStats {
		ch <- prometheus.MustNewConstMetric(d.desc, d.kind, d.value(stats))
	}
}

func (m *metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.connections, m.connects, m.disconnects, m.resumes, m.requests, m.events, m.bytes, m.delivery, m.catchup}
}

type hubStat struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(hub.Stats) float64
}

// hubStats are the figures of hub.Stats. The hub itself knows no Prometheus.
var hubStats = []hubStat{
	gauge("hub_topics", "Sessions with all their sub-agents that are in memory.", func(s hub.Stats) int64 { return int64(s.Topics) }),
	gauge("hub_watchers", "Cursors that are open.", func(s hub.Stats) int64 { return int64(s.Watchers) }),
	gauge("hub_bytes", "Memory for frames.", func(s hub.Stats) int64 { return s.Bytes }),
	counter("hub_reads_total", "Pages read from the log.", func(s hub.Stats) int64 { return s.Reads }),
	counter("hub_evicted_total", "Segments dropped to make room.", func(s hub.Stats) int64 { return s.Evicted }),
	counter("hub_holes_total", "Times the feed left something out, which was read from the log.", func(s hub.Stats) int64 { return s.Holes }),
	counter("hub_skipped_total", "Messages of watched sessions that were no records.", func(s hub.Stats) int64 { return s.Skipped }),
}

func gauge(name, help string, value func(hub.Stats) int64) hubStat {
	return hubStat{desc(name, help), prometheus.GaugeValue, func(s hub.Stats) float64 { return float64(value(s)) }}
}

func counter(name, help string, value func(hub.Stats) int64) hubStat {
	return hubStat{desc(name, help), prometheus.CounterValue, func(s hub.Stats) float64 { return float64(value(s)) }}
}

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, nil, nil)
}

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: namespace, Name: name, Help: help}
}

func counters(name, label, help string, values []string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), []string{label})
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: seconds})
}
