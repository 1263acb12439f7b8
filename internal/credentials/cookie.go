package credentials

import (
	"net/http"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
)

const (
	cookiePath = "/v1/session-cookie"

	// maxCookie bounds name and value: browsers ignore a cookie that is longer without an error.
	maxCookie = 4096
)

// setCookie serves POST /v1/session-cookie. The value of the cookie is the bearer token itself, so that everything that refuses the token refuses the cookie:
// its revocation, and the withdrawal of the key that signed it.
func (s *Service) setCookie(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	// The Grant is that of the header if there is one. Without this check a cookie could prolong itself, and a page of a proxy's user could get a cookie.
	token, err := authn.BearerToken(r.Header)
	if err != nil || token == "" {
		return challenge(w, noBearer, auth.ErrNoCredential)
	}
	// The cookie ends before the edge refuses the token, so that a page without a valid cookie gets 401 for none, and not for an expired one. It may end after exp,
	// because the clock of the issuer may be behind: then the header is accepted, and the cookie has to be accepted too.
	rest := time.Until(httpkit.GrantOf(r.Context()).ExpiresAt) // every token expires
	age := int((rest - rest/8) / time.Second)
	switch {
	case r.ContentLength > 0:
		return hasBody
	case age < 1:
		return challenge(w, expires, &authn.InvalidError{Reason: authn.ReasonExpired})
	case len(authn.CookieName)+len(token) > maxCookie:
		return tooLarge
	}
	http.SetCookie(w, cookie(token, age))
	s.respond.JSON(w, http.StatusOK, struct {
		ExpiresAt time.Time `json:"expiresAt"`
	}{time.Now().Add(time.Duration(age) * time.Second).UTC().Truncate(time.Second)})
	return nil
}

// removeCookie serves DELETE /v1/session-cookie. The token stays valid.
func (s *Service) removeCookie(w http.ResponseWriter, _ *http.Request, _ string) *httpkit.Problem {
	http.SetCookie(w, cookie("", -1))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: authn.CookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}
