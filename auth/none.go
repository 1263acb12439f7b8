package auth

import (
	"fmt"
	"net/http"

	"github.com/tailrace/tailrace/subjects"
)

// None gives every request all rights in one tenant. It is for a listener on loopback, which the caller guarantees: it does not look at the request.
type None struct{ grant Grant }

// LocalSubject is the subject of requests that None authenticates.
const LocalSubject = "local"

// NewNone returns a None for a tenant.
func NewNone(tenant string) (*None, error) {
	if err := subjects.CheckToken("tenant", tenant); err != nil {
		return nil, fmt.Errorf("authenticator none: %w", err)
	}
	return &None{Grant{Tenant: tenant, Subject: LocalSubject, Scopes: AllScopes, Sessions: Sessions{All: true}, Views: []string{AnyView}}}, nil
}

// Authenticate returns the Grant.
func (n *None) Authenticate(*http.Request) (*Grant, error) { return &n.grant, nil }
