package authn

import (
	"context"

	"github.com/tailrace/tailrace/auth"
)

type grantKey struct{}

// NewContext returns a context that carries g.
func NewContext(ctx context.Context, g *auth.Grant) context.Context {
	return context.WithValue(ctx, grantKey{}, g)
}

// FromContext returns the Grant that NewContext put into a context. ok is false, and the Grant nil, for a context without one: deny the request.
func FromContext(ctx context.Context) (g *auth.Grant, ok bool) {
	g, _ = ctx.Value(grantKey{}).(*auth.Grant)
	return g, g != nil
}
