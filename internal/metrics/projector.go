// Package metrics implements the observers of engines and adapters with Prometheus collectors.
//
// No label value is a session ID or text that a client wrote, so the number of series is bounded.
package metrics

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/shares"
)

// Projector implements projector.Observer. All Runners of a process share one.
type Projector struct {
	applied   map[chunk.Type]prometheus.Counter
	other     prometheus.Counter
	conflicts prometheus.Counter
	bytes     prometheus.Histogram
	write     prometheus.Histogram
}

var _ projector.Observer = (*Projector)(nil)

// otherTypes is the label value of the types that this build does not know.
const otherTypes = "other"

// NewProjector registers the metrics of the Runners of a process with reg.
func NewProjector(reg prometheus.Registerer) *Projector {
	applied := httpkit.Counters("projector_applied_total", "type",
		"Records applied to a snapshot, by type, "+otherTypes+" for types unknown to this build. Refolding a session counts its records again.", []string{otherTypes})
	p := &Projector{
		applied:   make(map[chunk.Type]prometheus.Counter),
		other:     applied.WithLabelValues(otherTypes),
		conflicts: httpkit.Counter("snapshot_cas_conflicts_total", "Snapshot saves rejected by compare-and-set."),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_snapshot_bytes", Help: "Approximate memory of a snapshot when it was saved: the head and the new messages.",
			Buckets: prometheus.ExponentialBuckets(1024, 4, 8),
		}),
		write: httpkit.Histogram("snapshot_write_seconds", "Duration of one snapshot save, messages and head."),
	}
	for _, t := range chunk.Types() {
		p.applied[t] = applied.WithLabelValues(string(t))
	}
	reg.MustRegister(applied, p.conflicts, p.bytes, p.write)
	return p
}

// Applied counts a record by its type.
func (p *Projector) Applied(t chunk.Type) {
	if c := p.applied[t]; c != nil {
		c.Inc()
		return
	}
	p.other.Inc()
}

// Saved records the size and the duration of a save.
func (p *Projector) Saved(memory int, took time.Duration) {
	p.bytes.Observe(float64(memory))
	p.write.Observe(took.Seconds())
}

// Conflict counts a save that was rejected by compare-and-set.
func (p *Projector) Conflict() { p.conflicts.Inc() }

// Source implements jssnapshots.SourceObserver. All Sources of a process share one.
type Source struct {
	messages    *prometheus.GaugeVec
	seconds     *prometheus.GaugeVec
	redelivered prometheus.Counter
}

var _ jssnapshots.SourceObserver = (*Source)(nil)

// NewSource registers the metrics of the Sources of a process with reg.
func NewSource(reg prometheus.Registerer) *Source {
	m := &Source{
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_messages",
			Help: "Records that are not in a saved snapshot yet, by partition. While a partition moves, two replicas may report it: take the maximum.",
		}, []string{"partition"}),
		seconds: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tailrace_projector_lag_seconds",
			Help: "Age of the oldest of these, 0 if there is none.",
		}, []string{"partition"}),
		redelivered: httpkit.Counter("projector_redelivered_total", "Deliveries that were not the first of their record."),
	}
	reg.MustRegister(m.messages, m.seconds, m.redelivered)
	return m
}

// Redelivered counts a delivery that was not the first of its record.
func (m *Source) Redelivered() { m.redelivered.Inc() }

// Lag sets the lag of a partition.
func (m *Source) Lag(partition int, records uint64, oldest time.Duration) {
	label := strconv.Itoa(partition)
	m.messages.WithLabelValues(label).Set(float64(records))
	m.seconds.WithLabelValues(label).Set(oldest.Seconds())
}

// LagUnknown removes the lag of a partition.
func (m *Source) LagUnknown(partition int) {
	m.messages.DeleteLabelValues(strconv.Itoa(partition))
	m.seconds.DeleteLabelValues(strconv.Itoa(partition))
}

// Shares implements shares.Observer for a projector.
type Shares struct {
	partitions, replicas prometheus.Gauge
}

var _ shares.Observer = (*Shares)(nil)

// NewShares registers the metrics of the share of a projector with reg.
func NewShares(reg prometheus.Registerer) *Shares {
	s := &Shares{
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_projector_partitions", Help: "Partitions of the log that this projector folds. The sum over all projectors is the number of partitions.",
		}),
		replicas: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tailrace_projector_replicas", Help: "Projectors that share the partitions, as far as this one knows; 0 while it has not had a lease.",
		}),
	}
	reg.MustRegister(s.partitions, s.replicas)
	return s
}

// RegisterBudget registers the metric of the memory of the Runners of a projector with reg.
func RegisterBudget(reg prometheus.Registerer, budget *projector.Budget) {
	reg.MustRegister(httpkit.Gauge("projector_memory_bytes", "Approximate memory of the sessions of all partitions of this projector, and of records that wait for them.", func() float64 {
		_, memory := budget.Used()
		return float64(memory)
	}))
}

// Shared sets the share of this projector.
func (s *Shares) Shared(partitions, members int) {
	s.partitions.Set(float64(partitions))
	s.replicas.Set(float64(members))
}

// RegisterDeadLetters registers the metric of the dead letters of a process with reg. added counts one, for retention.DeadLetterConfig.Observe.
func RegisterDeadLetters(reg prometheus.Registerer) (added func(retention.Reason)) {
	letters := httpkit.Counters("projector_dead_letters_total", "reason",
		"Messages stored as dead letters, by reason: record (cannot be folded), envelope (not a record) or subject (not a subject of a session).", retention.Reasons())
	reg.MustRegister(letters)
	return func(reason retention.Reason) { letters.WithLabelValues(string(reason)).Inc() }
}

// RegisterExpired registers the number of sessions that a retention.Eraser has removed because of the retention of snapshots with reg.
func RegisterExpired(reg prometheus.Registerer) prometheus.Counter {
	sessions := httpkit.Counter("sessions_expired_total", "Sessions removed because they had no record for longer than the maximum age of snapshots.")
	reg.MustRegister(sessions)
	return sessions
}

// RegisterApprovals registers the number of calls that wait for an approval, as a process has counted it, with reg.
func RegisterApprovals(reg prometheus.Registerer) prometheus.Gauge {
	pending := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tailrace_pending_approvals",
		Help: "Tool calls of all sessions that wait for an approval, as of the saved snapshots. All projectors report the same; NaN until the first count.",
	})
	pending.Set(math.NaN())
	reg.MustRegister(pending)
	return pending
}
