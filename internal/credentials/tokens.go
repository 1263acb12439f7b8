package credentials

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// tokenRequest is the body of POST /v1/tokens. The tenant is that of the credential.
type tokenRequest struct {
	Subject  string `json:"subject"`
	Sessions texts  `json:"sessions"` // as sid of a token; missing: those that the subject has started
	Scopes   string `json:"scopes"`   // "read chat"
	View     texts  `json:"view"`
	Minutes  int    `json:"minutes"` // missing: 15
}

// texts is a string or an array of strings.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(t))
}

const (
	wrongToken = `want {"subject":"…","scopes":"read chat"}, and perhaps "sessions", "view" and "minutes"`
	maxMinutes = 24 * 60
)

type tokenResponse struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
	TokenID   string    `json:"tokenId"`
}

// mint serves POST /v1/tokens.
func (s *Service) mint(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	req := tokenRequest{Minutes: 15}
	if p := s.read(w, r, &req, wrongToken); p != nil {
		return p
	}
	g := httpkit.GrantOf(r.Context())
	wanted, err := req.grant(g.Tenant)
	if err != nil {
		return httpkit.Invalid(err.Error())
	}
	lifetime := min(time.Duration(req.Minutes)*time.Minute, s.cfg.MaxLifetime)
	if !g.ExpiresAt.IsZero() {
		// By exp, which is the leeway before the edge refuses a token: with the leeway of each, a chain of tokens that mint each other would not end.
		lifetime = min(lifetime, time.Until(g.ExpiresAt)-authn.Leeway)
	}
	if lifetime < time.Second {
		return challenge(w, expires, &authn.InvalidError{Reason: authn.ReasonExpired})
	}
	minted, err := s.cfg.Minter.Mint(wanted, lifetime)
	if err != nil {
		return httpkit.Invalid(err.Error())
	}
	// What is compared is what the token will allow, and not what was asked for: it is verified as in a request, so that a token that the configuration refuses
	// is not handed out either.
	switch granted, err := s.cfg.Verify(r.Context(), minted.Token); {
	case err != nil:
		s.shared.Log.WarnContext(r.Context(), "minted token refused", "error", err)
		return notIssued
	case !authn.Covers(g, granted) || granted.Scopes&auth.ScopeAdmin != 0:
		return notWider
	}
	audit.Describe(r.Context(), audit.Event{Target: minted.ID})
	s.shared.Log.InfoContext(r.Context(), "token minted", "tenant", g.Tenant, "tokenId", minted.ID, "by", g.TokenID)
	s.respond.JSON(w, http.StatusOK, tokenResponse{minted.Token, minted.ExpiresAt.UTC(), minted.ID})
	return nil
}

// grant returns what the request asks for. The error is for the client, and contains of its text at most the beginning of an id.
func (t *tokenRequest) grant(tenant string) (auth.Grant, error) {
	g := auth.Grant{Tenant: tenant, Subject: t.Subject, Sessions: auth.Sessions{Own: true}, Views: t.View}
	var err error
	if g.Scopes, err = auth.ParseScope(t.Scopes); err != nil {
		return g, errors.New("scopes: want some of " + auth.AllScopes.String() + ", separated by single spaces")
	}
	if t.Minutes < 1 || t.Minutes > maxMinutes {
		return g, errors.New("minutes: want 1 to 1440")
	}
	if t.Sessions != nil {
		if g.Sessions, err = authn.ParseSessions(t.Sessions); err != nil {
			return g, errors.New(`sessions: want an id, up to 16 ids, "*" for all, or a prefix and "*"`)
		}
	}
	err = g.Check()
	return g, err
}
