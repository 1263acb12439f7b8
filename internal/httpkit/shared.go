package httpkit

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/hub"
)

// Shared is what the surfaces of one edge have in common. Audit, Metrics, Tenants and Unreachable may be nil; everything else is set.
type Shared struct {
	Auth         auth.Authenticator
	Authorizer   Authorizer
	Tenants      func(tenant string) http.Handler // see Options
	Origins      []string                         // whose pages may post
	Unreachable  func() bool                      // see Options
	Heartbeat    time.Duration
	WriteTimeout time.Duration
	DrainPeriod  time.Duration
	MaxStreamAge time.Duration      // 0 is unlimited
	Revocations  *authn.Revocations // nil is none
	Audit        *Auditor
	Tracer       trace.TracerProvider // see Options
	Streams      *StreamLimiter
	Rates        *RateLimiter
	Bodies       *BodyLimiter
	Pages        Pages
	Hub          *hub.Hub
	Metrics      prometheus.Registerer
	Log          *slog.Logger
}

// TooManyReads is the problem of a request that no memory is left for, see Pages.
var TooManyReads = NewProblem(http.StatusServiceUnavailable, CodeTooManyReads, "the memory for pages is in use", "retry later")

// Pages serves JSON that is read from sessions of any length, within the memory that the edge has for reads.
type Pages interface {
	// Serve writes what load returns. Requests with an equal session and version share one call of load. version is comparable, and differs when a client
	// must not get what was loaded before. load may be called several times; it returns the error of projector.WithReadLimit when it exceeds that limit.
	// problem returns the problem of another error of load.
	Serve(w http.ResponseWriter, r *http.Request, s chunk.Session, version any, load func(context.Context) ([]byte, error), problem func(error) *Problem) *Problem

	// Read calls load within that memory, for requests that read a session and respond with something else; a load of Serve has it already. load may be called several
	// times, as that of Serve. The error is chunk.ErrTooLarge for a session that needs more than there is, and ErrBudget if none was free.
	Read(ctx context.Context, load func(context.Context) error) error
}
