package run

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/sink/row"
)

// Metrics are what a Sink tells Prometheus. The zero Metrics tells nothing.
type Metrics struct {
	position, lagMessages, lagSeconds *prometheus.GaugeVec
	rows, commits, gaps               *prometheus.CounterVec
	seconds                           prometheus.Histogram
	reads                             prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tailrace_sink_" + name, Help: help}, []string{"partition"})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tailrace_sink_" + name, Help: help}, []string{label})
	}
	m := &Metrics{
		position:    gauge("position", "Stream sequence up to which the partition is stored."),
		lagMessages: gauge("lag_messages", "Messages of the partition after the position, also those of other tenants and removed ones."),
		lagSeconds:  gauge("lag_seconds", "Age of the oldest record of the sink that is not stored, 0 without one."),
		rows:        counter("rows_total", "Rows stored.", "table"),
		commits:     counter("commits_total", "Batches: stored, conflict (another process has stored more) or failed, also attempts to begin that failed.", "result"),
		gaps:        counter("gaps_total", "Rows of the table gaps stored.", "reason"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tailrace_sink_commit_seconds", Help: "Time in which a batch was stored.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
		reads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tailrace_sink_trees_read_total", Help: "Trees of sessions whose earlier records were read again.",
		}),
	}
	for _, c := range []prometheus.Collector{m.position, m.lagMessages, m.lagSeconds, m.rows, m.commits, m.gaps, m.seconds, m.reads} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, result := range []string{"stored", "conflict", "failed"} {
		m.commits.WithLabelValues(result)
	}
	for _, reason := range []row.Reason{row.Expired, row.Missing, row.Malformed, row.Removed, row.Recreated, row.Deleted} {
		m.gaps.WithLabelValues(string(reason)) // an alert on an increase needs the 0 before it
	}
	return m, nil
}

// committed counts a batch.
func (m *Metrics) committed(b *row.Batch, took time.Duration, err error) {
	if m.commits == nil {
		return
	}
	switch {
	case errors.Is(err, row.ErrConflict):
		m.commits.WithLabelValues("conflict").Inc()
	case err != nil:
		m.commits.WithLabelValues("failed").Inc()
	default:
		m.commits.WithLabelValues("stored").Inc()
		m.seconds.Observe(took.Seconds())
		m.rows.WithLabelValues("events").Add(float64(len(b.Events)))
		m.rows.WithLabelValues("observations").Add(float64(len(b.Observations)))
		for i := range b.Gaps {
			m.gaps.WithLabelValues(string(b.Gaps[i].Reason)).Inc()
		}
		m.position.WithLabelValues(strconv.Itoa(b.Through.Partition)).Set(float64(b.Through.Seq))
	}
}

// deleted counts sessions that were deleted without a record.
func (m *Metrics) deleted(sessions int) {
	if m.gaps != nil {
		m.gaps.WithLabelValues(string(row.Deleted)).Add(float64(sessions))
	}
}

// failed counts a failed attempt to begin.
func (m *Metrics) failed() {
	if m.commits != nil {
		m.commits.WithLabelValues("failed").Inc()
	}
}

// forgetLag removes the lag: another process stores, and has it.
func (m *Metrics) forgetLag() {
	if m.lagMessages != nil {
		m.lagMessages.Reset()
		m.lagSeconds.Reset()
	}
}

func (m *Metrics) treeRead() {
	if m.reads != nil {
		m.reads.Inc()
	}
}

func (m *Metrics) lag(partition int, messages uint64, age time.Duration) {
	if m.lagMessages != nil {
		label := strconv.Itoa(partition)
		m.lagMessages.WithLabelValues(label).Set(float64(messages))
		m.lagSeconds.WithLabelValues(label).Set(age.Seconds())
	}
}

const (
	lagInterval = 5 * time.Second

	// longWork is the number of messages from which on the progress is logged.
	longWork = 100_000
)

// observeLag measures how far the store is behind the log, and logs the progress of long work, until ctx ends.
func (s *Sink) observeLag(ctx context.Context) {
	tick := time.NewTicker(lagInterval)
	defer tick.Stop()
	var before uint64 // messages behind at the last tick
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		behind, ok := s.lag(ctx)
		if ok && behind >= longWork && before > behind {
			rate := float64(before-behind) / lagInterval.Seconds()
			s.cfg.Log.Info("catching up", slog.Uint64("behind", behind), slog.Int("perSecond", int(rate)),
				slog.Duration("left", time.Duration(float64(behind)/rate*float64(time.Second)).Round(time.Second)))
		}
		before = behind
	}
}

// lagOnce measures how far the store is behind the log, if the server responds soon.
func (s *Sink) lagOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lagInterval)
	defer cancel()
	s.lag(ctx)
}

// lag returns the messages that all partitions are behind, and false if the server does not say.
func (s *Sink) lag(ctx context.Context) (sum uint64, ok bool) {
	for _, p := range s.parts {
		behind, age, err := p.lag(ctx)
		if err != nil {
			return 0, false // the reader of the log reports it
		}
		s.cfg.Metrics.lag(p.number, behind, age)
		sum += behind
	}
	return sum, true
}

// lag returns the messages of the partition after the stored position, and the age of the first one that the sink stores.
func (p *partition) lag(ctx context.Context) (behind uint64, age time.Duration, err error) {
	p.mu.Lock()
	at := p.position
	p.mu.Unlock()
	if at.Generation == 0 { // the store has not said where it is: the lag is as long at least
		return 0, time.Since(p.sink.started), nil
	}
	tip, err := p.sink.trees.Tip(ctx, p.number)
	if err != nil || tip.Seq <= at.Seq {
		return 0, 0, err
	}
	layout := p.sink.cfg.Layout
	filter := names.Layout(layout).AllFilter(p.number)
	if tenant := p.sink.cfg.Tenant; tenant != "" {
		if filter, err = names.Layout(layout).TenantFilter(p.number, tenant); err != nil {
			return 0, 0, err
		}
	}
	next, err := p.sink.client.Next(ctx, layout.Stream(p.number), filter, uint64(at.Seq)+1)
	switch {
	case errors.Is(err, jsclient.ErrNotFound): // all are of other tenants, or were removed
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	return uint64(tip.Seq - at.Seq), max(0, time.Since(next.Stored)), nil
}
