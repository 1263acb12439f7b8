package httpkit

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Surface is a Router with the streams that its routes have open. It is mounted on an Edge.
type Surface struct {
	*Router

	Streams Drain

	// DrainPeriod is the time over which Drain closes the streams. Defaults to none: they end at once.
	DrainPeriod time.Duration

	// Below is a path. The Surface also gets the requests for all paths below it that are not of a route, which it answers in its own form. Defaults to none.
	Below string
}

// NewSurface returns a Surface with these routes, whose policies are those of the edge. Of o, it uses what is not in Shared: names, texts of problems, Respond.
// Without o.NoLog its routes do not need the log.
func (s *Shared) NewSurface(routes []Route, o Options) (*Surface, error) {
	o.Origins, o.Authenticator, o.Rates, o.Authorizer, o.Tenants, o.Audit, o.Tracer = s.Origins, s.Auth, s.Rates, s.Authorizer, s.Tenants, s.Audit, s.Tracer
	if o.NoLog != nil {
		o.Unreachable = s.Unreachable
	}
	router, err := NewRouter(routes, o)
	if err != nil {
		return nil, err
	}
	return &Surface{Streams: Drain{Revocations: s.Revocations}, Router: router}, nil
}

// Match reports whether the Surface serves a path, as it was sent.
func (s *Surface) Match(path string) bool {
	return s.Below != "" && strings.HasPrefix(path, s.Below+"/") ||
		slices.ContainsFunc(s.routes, func(rt Route) bool { _, _, ok := matchPath(rt.Path, path); return ok })
}

// Drain rejects new streams, closes the open ones and returns when the last one has ended, or when ctx ends. Other requests are still served.
func (s *Surface) Drain(ctx context.Context) error { return s.Streams.Begin(ctx, s.DrainPeriod) }
