package httpedge

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// Accounting of a batch allocates nothing.
func TestCountingABatchAllocatesNothing(t *testing.T) {
	for name, m := range map[string]*metrics{"with metrics": someMetrics(t), "without": nil} {
		did, now := m.open(), time.Now()
		batch := hub.Batch{Records: 2, Frames: []byte("id: 1\ndata: {}\n\nid: 2\ndata: {}\n\n"), StoredAt: now}
		allocs := testing.AllocsPerRun(1000, func() { did.sent(batch, now) })
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
		if did.events != 2*1001 {
			t.Errorf("%s: %d events", name, did.events)
		}
	}
}

func someMetrics(tb testing.TB) *metrics {
	tb.Helper()
	rates, err := httpkit.NewRateLimiter(httpkit.Rates{}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := newMetrics(prometheus.NewRegistry(), &Edge{rates: rates})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func BenchmarkCountingABatch(b *testing.B) {
	for name, m := range map[string]*metrics{"metrics": someMetrics(b), "none": nil} {
		b.Run(name, func(b *testing.B) {
			did, now := m.open(), time.Now()
			batch := hub.Batch{Records: 1, Frames: []byte("id: 1042\ndata: {\"type\":\"chunk\",\"chunk\":{\"type\":\"text_delta\",\"delta\":\"some text\"},\"sequence\":1042}\n\n"), StoredAt: now}
			b.ReportAllocs()
			for b.Loop() {
				did.sent(batch, now)
			}
		})
	}
}
