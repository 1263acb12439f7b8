package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// Why a request with lines ended, in addition to the reasons of httpkit.
const (
	endRefused    = "refused"    // a line, or the run takes no lines
	endSuperseded = "superseded" // a later request writes the run
)

// metrics has the metrics of a Server. The nil *metrics counts nothing.
type metrics struct {
	streams prometheus.GaugeFunc
	lines   prometheus.Counter
	bytes   prometheus.Counter
	ends    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, s *Server) (*metrics, error) {
	m := &metrics{
		streams: httpkit.Gauge("ingest_streams", "Requests with lines of runs that are open.", func() float64 { return float64(s.surface.Streams.Len()) }),
		lines:   httpkit.Counter("ingest_lines_total", "Lines of runs that were read, also those that were stored before."),
		bytes:   httpkit.Counter("ingest_bytes_total", "Bytes of these lines."),
		ends: httpkit.Counters("ingest_ends_total", "reason",
			"Requests with lines that ended, by reason: end (complete), refused (a line, or the run takes none), superseded (by a later request), client (cut), slow, drain, expired, revoked, age or error.",
			append([]string{endRefused, endSuperseded}, httpkit.EndReasons...)),
	}
	return m, reg.Register(httpkit.Collectors{m.streams, m.lines, m.bytes, m.ends})
}

func (m *metrics) ended(reason string) {
	if m != nil {
		m.ends.WithLabelValues(reason).Inc()
	}
}

func (m *metrics) line(size int) {
	if m != nil {
		m.lines.Inc()
		m.bytes.Add(float64(size))
	}
}
