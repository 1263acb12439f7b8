package authn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/auth"
)

// ErrTokenInQuery reports a token in the query of a URL, where proxies and browsers log it. The response is 401, and the token must be revoked: it is known to
// everything that has seen the URL.
var ErrTokenInQuery = errors.New("a token in the query of a URL is refused")

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

// InvalidError reports why a credential is refused. It is auth.ErrInvalid. It contains nothing of the credential but what Detail says.
type InvalidError struct {
	Reason Reason
	Member string // name of the header, claim or HTTP header that is the reason; "" if it is not one

	// Detail is a sentence for logs and clients: what is wrong and, if every client may know it, what is wanted. Of the credential it has at most the beginning of typ and alg.
	Detail string
}

// Error returns the reason with the name of the member, and the detail.
func (e *InvalidError) Error() string {
	text := fmt.Sprintf("%v: %s", auth.ErrInvalid, e.Reason)
	if e.Member != "" {
		text += " " + e.Member
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is makes an InvalidError an auth.ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == auth.ErrInvalid }

// details are the sentences of reasons; % is the member.
var details = map[Reason]string{
	ReasonRepeated:  "the request has more than one header Authorization",
	ReasonScheme:    "header Authorization: want Bearer and a token",
	ReasonTooLarge:  "the token has more than 8192 bytes",
	ReasonMalformed: "want a JWS in compact form: header, claims and signature in base64url, separated by dots",
	ReasonEncrypted: "the token is encrypted, want a signed one",
	ReasonDuplicate: "the token has two members of one name",
	ReasonHeader:    "header % is not allowed, or malformed",
	ReasonAlgorithm: "header alg is missing or not text",
	ReasonType:      "header typ is not text",
	ReasonIssuer:    "claim iss is missing, or not an issuer of auth.json",
	ReasonKey:       "header kid is not a key of the issuer, or missing while the issuer has several",
	ReasonSignature: "the signature is not that of a key of the issuer",
	ReasonAudience:  "claim aud is missing, or another service",
	ReasonExpired:   "claim exp is in the past",
	ReasonEarly:     "claim nbf or iat is in the future",
	ReasonClaim:     "claim % is missing or malformed, or more than the issuer may grant",
	ReasonForbidden: "claim % has what the issuer may not grant",
	ReasonRevoked:   "revoked",
	ReasonTicket:    "the ticket does not exist: it has expired or was used",
	ReasonProxy:     "header % of the proxy is missing, repeated or malformed",
}

func invalid(reason Reason) error { return &InvalidError{Reason: reason, Detail: details[reason]} }

func invalidMember(reason Reason, member string) error {
	return &InvalidError{Reason: reason, Member: member, Detail: strings.ReplaceAll(details[reason], "%", member)}
}

// invalidHeader reports a header of a token that is not one of those that are wanted.
func invalidHeader(reason Reason, name, got string, want []string) error {
	var quoted []string
	for _, one := range want {
		if one != "" && !strings.HasPrefix(one, "application/") { // these are also accepted
			quoted = append(quoted, strconv.Quote(one))
		}
	}
	return &InvalidError{Reason: reason, Detail: fmt.Sprintf("header %s is %.32q, want %s", name, got, strings.Join(quoted, " or "))}
}

// UnavailableError reports why credentials of an issuer cannot be verified at present. It is auth.ErrUnavailable.
type UnavailableError struct {
	Issuer     string // "" for all
	RetryAfter time.Duration
	Cause      error // for logs
}

// Error returns the issuer and the cause. It is for logs: the cause can contain internal addresses.
func (e *UnavailableError) Error() string {
	switch {
	case e.Issuer == "":
		return fmt.Sprintf("%v: %v", auth.ErrUnavailable, e.Cause)
	case e.Cause == nil:
		return fmt.Sprintf("%v: issuer %s", auth.ErrUnavailable, e.Issuer)
	}
	return fmt.Sprintf("%v: issuer %s: %v", auth.ErrUnavailable, e.Issuer, e.Cause)
}

// Is makes an UnavailableError an auth.ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == auth.ErrUnavailable }

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
	case errors.Is(err, auth.ErrInvalid):
		return `Bearer error="invalid_token"`
	default:
		return "Bearer"
	}
}
