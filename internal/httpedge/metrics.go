package httpedge

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// metrics has the metrics of an edge and its hub. Labels have few values, which this package defines: no session, user or tenant is a label. An edge without
// Config.Metrics has a nil *metrics, which counts nothing.
//
// Sent events are counted by batch and not by type: a batch is an encoded byte slice that all clients share, and parsing it for each client would cost too
// much.
type metrics struct {
	connections prometheus.GaugeFunc
	connects    *prometheus.CounterVec
	disconnects *prometheus.CounterVec
	resumes     *prometheus.CounterVec
	requests    *httpkit.RequestMetrics
	readBytes   prometheus.GaugeFunc
	rejected    prometheus.Counter
	events      prometheus.Counter
	bytes       prometheus.Counter
	delivery    prometheus.Histogram
	catchup     prometheus.Histogram
}

// newMetrics registers the metrics of an edge.
func newMetrics(reg prometheus.Registerer, e *Edge) (*metrics, error) {
	m := &metrics{
		connections: httpkit.Gauge("edge_connections", "Event streams that are open.", func() float64 { return float64(e.streams.Len()) }),
		connects: httpkit.Counters("edge_connects_total", "outcome",
			"Requests for an event stream, by outcome: opened, ended (a complete session, 204), or the code of the problem.", connectOutcomes),
		disconnects: httpkit.Counters("edge_disconnects_total", "reason",
			"Event streams that ended, by reason: end (the session is complete), client (disconnected), slow, drain, expired (the credential) or error.", httpkit.EndReasons),
		resumes: httpkit.Counters("edge_resumes_total", "outcome",
			"Cursors of clients, by outcome: exact, or the reason why the client was moved to another position (also later, within a stream).", resumeOutcomes),
		requests: httpkit.NewRequestMetrics(),
		readBytes: httpkit.Gauge("edge_read_bytes", "Memory for pages that are being read and written: snapshots, messages, trees, lists of sessions.",
			func() float64 { return float64(e.reads.inUse()) }),
		rejected: httpkit.Counter("edge_reads_rejected_total", "Reads of pages that were rejected because the memory for them was in use."),
		events:   httpkit.Counter("edge_events_sent_total", "Events sent on event streams."),
		bytes:    httpkit.Counter("edge_bytes_sent_total", "Bytes of these events."),
		delivery: httpkit.Histogram("edge_delivery_seconds", "Time from the storage of the newest record of a batch to the end of its write. Live batches only; compares the clocks of two machines."),
		catchup:  httpkit.Histogram("edge_catchup_seconds", "Time from the opening of a stream to the end of its backlog; not of streams without one."),
	}
	all := httpkit.Collectors{m.connections, m.connects, m.disconnects, m.resumes, m.requests, m.rejected, m.events, m.bytes, m.delivery, m.catchup, hubMetrics{e.hub}}
	if e.cfg.LimitsOf == nil { // these are of both
		all = append(all, m.readBytes, e.rates.Metrics())
	}
	if err := reg.Register(all); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// The values of the labels. All of them exist from the start, so that the first event of a kind is an increase from 0 and not a new series.
var (
	connectOutcomes = []string{
		"opened", "ended", noStream.Label(), draining.Label(), unavailable.Label(), httpkit.Forbidden.Label(), strings.ToLower(httpkit.CodeNoCredential),
		httpkit.EdgeLimit.Label(), httpkit.TenantLimit.Label(), httpkit.AddressLimit.Label(), httpkit.SessionLimit.Label(),
	}
	resumeOutcomes = []string{resumeExact, resumeTruncated, resumeEpoch, resumeFuture, resumeUnknown}
)

const (
	resumeExact     = "exact"
	resumeTruncated = "truncated" // the records after it have expired
	resumeEpoch     = "epoch"     // a cursor of a stream that was recreated
	resumeFuture    = "future"
	resumeUnknown   = "unknown" // of another session, or malformed
)

func (m *metrics) connected(outcome string) {
	if m != nil {
		m.connects.WithLabelValues(outcome).Inc()
	}
}

// resumed counts a client that continues exactly after its cursor.
func (m *metrics) resumed() {
	if m != nil {
		m.resumes.WithLabelValues(resumeExact).Inc()
	}
}

// readRejected counts a read for which there was no memory.
func (m *metrics) readRejected() {
	if m != nil {
		m.rejected.Inc()
	}
}

// moved counts a client that was moved to another position.
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
	case chunk.TruncatedWrongSession:
	}
	m.resumes.WithLabelValues(outcome).Inc()
}

// watch returns a ResponseWriter that counts the response to a request. A request that a Surface hands on to the Edge is counted under the route of the
// Surface.
func (m *metrics) watch(w http.ResponseWriter, r *http.Request, name func(*http.Request) string) http.ResponseWriter {
	if m == nil {
		return w
	}
	return m.requests.Watch(w, r, name)
}

// hubMetrics exports hub.Stats. The hub itself does not import Prometheus.
type hubMetrics struct{ hub *hub.Hub }

// Describe implements prometheus.Collector.
func (hubMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range hubStats {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector. It reads the statistics of the hub once.
func (m hubMetrics) Collect(ch chan<- prometheus.Metric) {
	stats := m.hub.Stats()
	for _, d := range hubStats {
		ch <- prometheus.MustNewConstMetric(d.desc, d.kind, d.value(stats))
	}
}

type hubStat struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(hub.Stats) float64
}

var hubStats = []hubStat{
	gauge("hub_feeds", "Partitions, or sessions with their sub-agents, that are followed.", func(s hub.Stats) int64 { return int64(s.Feeds) }),
	gauge("hub_topics", "Sessions, each with its sub-agents, in memory.", func(s hub.Stats) int64 { return int64(s.Topics) }),
	gauge("hub_watchers", "Cursors that are open.", func(s hub.Stats) int64 { return int64(s.Cursors) }),
	gauge("hub_bytes", "Memory for frames.", func(s hub.Stats) int64 { return s.Bytes }),
	counter("hub_reads_total", "Pages read from the log.", func(s hub.Stats) int64 { return s.Reads }),
	counter("hub_evicted_total", "Segments evicted from memory.", func(s hub.Stats) int64 { return s.Evicted }),
	counter("hub_holes_total", "Gaps in the live feed, repaired from the log.", func(s hub.Stats) int64 { return s.Gaps }),
	counter("hub_skipped_total", "Malformed messages of watched sessions.", func(s hub.Stats) int64 { return s.Skipped }),
}

func gauge(name, help string, value func(hub.Stats) int64) hubStat {
	return hubStat{desc(name, help), prometheus.GaugeValue, func(s hub.Stats) float64 { return float64(value(s)) }}
}

func counter(name, help string, value func(hub.Stats) int64) hubStat {
	return hubStat{desc(name, help), prometheus.CounterValue, func(s hub.Stats) float64 { return float64(value(s)) }}
}

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tailrace_"+name, help, nil, nil)
}
