package credentials

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// Config configures a Service. A route whose part is missing is not served.
type Config struct {
	// Minter signs the tokens of POST /v1/tokens. Defaults to none.
	Minter *auth.Minter

	// Verify returns the Grant of a token that the Minter has signed: the same that the Authenticator of the Edge returns. Required with Minter.
	Verify func(ctx context.Context, token string) (*auth.Grant, error)

	// MaxLifetime bounds the tokens. Defaults to an hour.
	MaxLifetime time.Duration

	// Cookies is set if the Authenticator of the Edge accepts an auth.Cookie.
	Cookies bool

	// Tickets issues tickets, which the Edge accepts. Defaults to none.
	Tickets *authn.Tickets
}

// Service is a surface of an Edge. It starts no goroutine.
type Service struct {
	cfg     Config
	shared  *access.Shared
	respond *httpkit.Responder
}

// New mounts the routes on an Edge.
func New(edge *httpedge.Edge, cfg Config) (*Service, error) {
	switch {
	case edge == nil:
		return nil, errors.New("credentials: the edge is nil")
	case cfg.Minter != nil && cfg.Verify == nil:
		return nil, errors.New("credentials: Verify is nil, want one with Minter")
	case cfg.MaxLifetime < 0:
		return nil, fmt.Errorf("credentials: MaxLifetime is %s, want more than 0", cfg.MaxLifetime)
	case cfg.MaxLifetime == 0:
		cfg.MaxLifetime = time.Hour
	}
	shared := edge.Shared()
	s := &Service{cfg: cfg, shared: shared, respond: &httpkit.Responder{Log: shared.Log}}
	surface, err := shared.NewSurface(s.routes(), httpkit.Options{OtherName: "credentials_other", Unknown: noSession, NoLog: unavailable, Respond: s.respond})
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	edge.Mount(surface)
	return s, nil
}

// routes returns all routes. Those for tokens and cookies do not need the log.
func (s *Service) routes() []httpkit.Route {
	return []httpkit.Route{
		{Name: "tokens", Method: http.MethodPost, Path: "/v1/tokens", Scope: auth.ScopeAdmin, Act: audit.MintToken, Serve: s.mint, WithoutLog: true, Disabled: s.cfg.Minter == nil},
		{Name: "session_cookie", Method: http.MethodPost, Path: cookiePath, Scope: auth.ScopeRead, Act: audit.StartCookie, Serve: s.setCookie, WithoutLog: true, Disabled: !s.cfg.Cookies},
		// Public, because a page must be able to remove a cookie that is not valid any more.
		{Name: "session_cookie", Method: http.MethodDelete, Path: cookiePath, Public: true, Serve: s.removeCookie, Disabled: !s.cfg.Cookies},
		{Name: "tickets", Method: http.MethodPost, Path: "/v1/tickets", Scope: auth.ScopeRead, Act: audit.MintTicket, Serve: s.issueTicket, Disabled: s.cfg.Tickets == nil},
	}
}

// read reads the body of a POST into v.
func (s *Service) read(w http.ResponseWriter, r *http.Request, v any, wrong string) *httpkit.Problem {
	return s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: 16 << 10, Depth: 4}, httpkit.IntoExactly(v, wrong))
}

// The codes of this package, in addition to those of httpkit. They are part of the wire and do not change.
const codeTokenTooLarge = "TOKEN_TOO_LARGE"

var (
	noSession   = httpkit.NewProblem(http.StatusNotFound, httpkit.CodeNotFound, "no such session", "")
	unavailable = httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "log unavailable", "retry later")
	notWider    = httpkit.NewProblem(http.StatusForbidden, httpkit.CodeForbidden, "a token may not allow more than the credential that mints it, nor admin", "")
	notIssued   = httpkit.NewProblem(http.StatusForbidden, httpkit.CodeForbidden, "tokens of this deployment may not allow this", "")
	noBearer    = httpkit.NewProblem(http.StatusUnauthorized, httpkit.CodeNoCredential, "a credential is required", "want the header Authorization: Bearer")
	expires     = httpkit.NewProblem(http.StatusUnauthorized, httpkit.CodeNoCredential, "the credential is refused", string(authn.ReasonExpired))
	hasBody     = httpkit.NewProblem(http.StatusRequestEntityTooLarge, httpkit.CodeTooLarge, "no body is read here", "")
	tooLarge    = httpkit.NewProblem(http.StatusBadRequest, codeTokenTooLarge, "the token does not fit a cookie", "want a shorter token, or use tickets")
	noView      = httpkit.Invalid("view: there is no such view")
)

// challenge adds to a response with status 401 why the credential was not enough.
func challenge(w http.ResponseWriter, p *httpkit.Problem, err error) *httpkit.Problem {
	w.Header().Set("WWW-Authenticate", authn.Challenge(err))
	return p
}
