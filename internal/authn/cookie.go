package authn

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
)

// CookieName is the cookie that has a token. A browser accepts a name with __Host- only from the host itself, with Secure, for all paths and without a domain: a
// host below the same domain cannot set it for a user.
const CookieName = "__Host-tailrace"

// ErrCrossOrigin reports a cookie in a request that a page of another origin can have made: browsers send the cookies of a user with such requests too. The
// response is 403.
var ErrCrossOrigin = errors.New("a cookie is not accepted from a page of another origin")

// Cookie accepts the token of a cookie, for clients that cannot send headers, such as EventSource. It is a part of a Chain.
//
// A browser sends a cookie for whichever page makes a request. So Cookie accepts it, for every method, only from pages of the origin of the request itself and of
// the configured origins:
//   - Sec-Fetch-Site is same-origin or none, or Origin is the own or a configured origin;
//   - without both, which old browsers omit for GET, the method is GET or HEAD;
//   - a body is application/json, which a page of another origin cannot send without a preflight.
type Cookie struct{ csrf *http.CrossOriginProtection }

// NewCookie returns a Cookie for pages of these origins in addition to the own one, in the form "https://app.example".
func NewCookie(origins ...string) (*Cookie, error) {
	c := &Cookie{http.NewCrossOriginProtection()}
	for _, origin := range origins {
		if err := c.csrf.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("origins of the cookie: %w", err)
		}
	}
	return c, nil
}

// token returns the token of the cookie. present is false for a request without the cookie.
func (c *Cookie) token(r *http.Request) (token string, present bool, err error) {
	if len(r.Header["Cookie"]) == 0 {
		return "", false, nil
	}
	switch cookies := r.CookiesNamed(CookieName); {
	case len(cookies) == 0:
		return "", false, nil
	case len(cookies) > 1:
		return "", true, invalid(ReasonRepeated)
	case len(cookies[0].Value) > MaxToken:
		return "", true, invalid(ReasonTooLarge)
	default:
		return cookies[0].Value, true, c.check(r)
	}
}

// check treats every request like one with an effect: a stream that a page of another origin opens with the cookies of its user has no effect on data, but takes
// a place of the user, and its duration tells that page something.
func (c *Cookie) check(r *http.Request) error {
	if c.csrf.Check(&http.Request{Method: http.MethodPost, Host: r.Host, URL: r.URL, Header: r.Header}) != nil {
		return ErrCrossOrigin
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if r.Header.Get("Sec-Fetch-Site") == "" && r.Header.Get("Origin") == "" {
		return ErrCrossOrigin
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.ContentLength != 0 && (err != nil || media != "application/json") {
		return ErrCrossOrigin
	}
	return nil
}
