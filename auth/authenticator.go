package auth

import (
	"errors"
	"net/http"
)

// Authenticator finds out who makes a request.
type Authenticator interface {
	// Authenticate returns the Grant of a request, or an error that wraps ErrNoCredential, ErrInvalid or ErrUnavailable. It may be called concurrently. The Grant
	// is shared and must not be modified.
	Authenticate(r *http.Request) (*Grant, error)
}

var (
	// ErrNoCredential reports a request without a credential. The response is 401.
	ErrNoCredential = errors.New("no credential")

	// ErrInvalid reports a credential that is refused. The response is 401.
	ErrInvalid = errors.New("invalid credential")

	// ErrUnavailable reports that a credential cannot be verified at present. The response is 503 with Retry-After.
	ErrUnavailable = errors.New("credentials cannot be verified at present")
)
