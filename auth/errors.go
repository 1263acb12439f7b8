package auth

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNoCredential reports a request without a credential. The response is 401.
	ErrNoCredential = errors.New("no credential")

	// ErrTokenInQuery reports a token in the query of a URL, where proxies and browsers log it. The response is 401, and the token must be revoked: it is known
	// to everything that has seen the URL.
	ErrTokenInQuery = errors.New("a token in the query of a URL is refused")

	// ErrInvalid reports a credential that is refused. An *InvalidError wraps it and has the reason. The response is 401.
	ErrInvalid = errors.New("invalid credential")

	// ErrUnavailable reports that a credential cannot be verified at present: the identity provider cannot be reached and there are no keys to verify with, or the
	// revocations are not loaded. An *UnavailableError wraps it. The response is 503 with Retry-After.
	ErrUnavailable = errors.New("credentials cannot be verified at present")
)

// Reason is why a credential is refused: a label for metrics and a text for clients.
type Reason string

// The reasons. Those up to ReasonSignature hold for a credential that may come from anywhere; after them the issuer has signed it.
const (
	ReasonRepeated  Reason = "repeated"    // more than one Authorization header
	ReasonScheme    Reason = "scheme"      // the scheme is not Bearer, or is not followed by a token
	ReasonTooLarge  Reason = "too_large"   // more than MaxToken bytes
	ReasonMalformed Reason = "malformed"   // not three parts of canonical base64url, of which the first two are JSON objects in UTF-8
	ReasonEncrypted Reason = "encrypted"   // a JWE
	ReasonDuplicate Reason = "duplicate"   // two members of one name
	ReasonHeader    Reason = "header"      // a header that is not allowed, see Member
	ReasonAlgorithm Reason = "algorithm"   // alg is missing, or not one that this issuer may use
	ReasonType      Reason = "type"        // typ is not that of an access token
	ReasonIssuer    Reason = "issuer"      // iss is missing, or not one that is configured
	ReasonKey       Reason = "unknown_key" // kid is not one of the keys of the issuer, or there is none and the issuer has several keys
	ReasonSignature Reason = "signature"   // the signature is wrong

	ReasonAudience  Reason = "audience"      // aud is missing, or for another service
	ReasonExpired   Reason = "expired"       // exp, and the leeway, are in the past
	ReasonEarly     Reason = "not_yet_valid" // nbf or iat is in the future
	ReasonClaim     Reason = "claim"         // a claim is missing or malformed, see Member
	ReasonForbidden Reason = "forbidden"     // the issuer may not grant this, see Member
	ReasonRevoked   Reason = "revoked"       // the token, or the credentials of its subject, were revoked

	ReasonTicket Reason = "ticket" // a ticket that was not issued, has expired, or was spent

	ReasonProxy       Reason = "proxy_header" // a header of a trusted proxy is missing, repeated or malformed, see Member
	ReasonCertificate Reason = "certificate"  // the name in a client certificate cannot be a subject
)

// InvalidError reports why a credential is refused. It is ErrInvalid. It contains nothing of the credential.
type InvalidError struct {
	Reason Reason
	Member string // name of the header, claim or HTTP header that is the reason; "" if it is not one
}

// Error returns the reason with the name of the member.
func (e *InvalidError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("%v: %s", ErrInvalid, e.Reason)
	}
	return fmt.Sprintf("%v: %s %s", ErrInvalid, e.Reason, e.Member)
}

// Is makes an InvalidError an ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(reason Reason) error { return &InvalidError{Reason: reason} }

func invalidMember(reason Reason, member string) error {
	return &InvalidError{Reason: reason, Member: member}
}

// UnavailableError reports why credentials of an issuer cannot be verified at present. It is ErrUnavailable.
type UnavailableError struct {
	Issuer     string // "" for all
	RetryAfter time.Duration
	Cause      error // for logs
}

// Error returns the issuer and the cause. It is for logs: the cause can contain internal addresses.
func (e *UnavailableError) Error() string {
	switch {
	case e.Issuer == "":
		return fmt.Sprintf("%v: %v", ErrUnavailable, e.Cause)
	case e.Cause == nil:
		return fmt.Sprintf("%v: issuer %s", ErrUnavailable, e.Issuer)
	}
	return fmt.Sprintf("%v: issuer %s: %v", ErrUnavailable, e.Issuer, e.Cause)
}

// Is makes an UnavailableError an ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// Challenge returns the value of WWW-Authenticate for an error of a Chain, as RFC 6750, section 3, has it.
func Challenge(err error) string {
	switch bad, isInvalid := errors.AsType[*InvalidError](err); {
	case isInvalid && bad.Reason == ReasonExpired:
		return `Bearer error="invalid_token", error_description="expired"` // clients look for it to get a fresh one
	case isInvalid && bad.Reason == ReasonRevoked:
		return `Bearer error="invalid_token", error_description="revoked"`
	case isInvalid && (bad.Reason == ReasonRepeated || bad.Reason == ReasonScheme):
		return `Bearer error="invalid_request"`
	case errors.Is(err, ErrTokenInQuery):
		return `Bearer error="invalid_request", error_description="token in the query"`
	case errors.Is(err, ErrInvalid):
		return `Bearer error="invalid_token"`
	default:
		return "Bearer"
	}
}
