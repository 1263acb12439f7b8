package httpkit

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/internal/hub"
)

// Shared is what the surfaces of one edge have in common. Metrics and Unreachable may be nil; everything else is set.
type Shared struct {
	Tenant       string
	Origins      []string    // whose pages may post
	Unreachable  func() bool // see Options
	Heartbeat    time.Duration
	WriteTimeout time.Duration
	DrainPeriod  time.Duration
	Streams      *StreamLimiter
	Bodies       *BodyLimiter
	Hub          *hub.Hub
	Metrics      prometheus.Registerer
	Log          *slog.Logger
}
