package authn

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
)

const ticketLength = 26 // of rand.Text

// TicketTTL is how long a ticket can be used after it was issued.
const TicketTTL = 30 * time.Second

// TicketStore stores tickets. It may be called concurrently, and from several processes.
type TicketStore interface {
	// PutTicket stores a ticket under a new id, for ttl or longer.
	PutTicket(ctx context.Context, id string, ticket []byte, ttl time.Duration) error

	// SpendTicket removes a ticket and returns it. Of concurrent calls, in whichever processes, exactly one gets it; the others get revocation.ErrNoTicket.
	SpendTicket(ctx context.Context, id string) ([]byte, error)
}

// TicketsConfig configures Tickets.
type TicketsConfig struct {
	Store TicketStore // required

	// Revocations of the credentials that have made tickets, as ChainConfig.Revocations has them. Defaults to nil: nothing is revoked.
	Revocations *Revocations

	Now func() time.Time // clock; defaults to time.Now
}

// Tickets issues and accepts tickets: random texts in the query of a URL, each for one request and one session, for at most TicketTTL. A URL with a ticket may be
// logged, because the ticket has been spent then.
//
// As an Authenticator, Tickets is for routes that read one session. It returns ErrNoCredential for a request without a ticket.
type Tickets struct{ cfg TicketsConfig }

// NewTickets returns Tickets.
func NewTickets(cfg TicketsConfig) (*Tickets, error) {
	if cfg.Store == nil {
		return nil, errors.New("Store is nil")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Tickets{cfg}, nil
}

// storedTicket is in the form of JSON: an edge of another version can spend it.
type storedTicket struct {
	Tenant    string    `json:"tenant"`
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer,omitempty"`
	TokenID   string    `json:"tokenId,omitempty"`
	Session   string    `json:"session"`
	Views     []string  `json:"views,omitempty"`
	IssuedAt  time.Time `json:"issuedAt,omitzero"`  // of the Grant
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // of the Grant
	UseBefore time.Time `json:"useBefore"`
}

// Issue stores a ticket to read one root session and its sub-agents, with the views, the expiry and the token id of g. The caller has checked that g may read it.
func (t *Tickets) Issue(ctx context.Context, g *auth.Grant, session string, views []string) (ticket string, useBefore time.Time, err error) {
	useBefore = t.cfg.Now().Add(TicketTTL).Truncate(time.Second)
	if !g.ExpiresAt.IsZero() && g.ExpiresAt.Before(useBefore) {
		useBefore = g.ExpiresAt
	}
	text, err := json.Marshal(storedTicket{g.Tenant, g.Subject, g.Issuer, g.TokenID, session, views, g.IssuedAt, g.ExpiresAt, useBefore})
	if err != nil {
		return "", useBefore, err
	}
	ticket = rand.Text() // at least 128 random bits
	return ticket, useBefore, t.cfg.Store.PutTicket(ctx, ticketID(ticket), text, TicketTTL)
}

// ticketID is what is stored of a ticket: a reader of the store cannot use its tickets.
func ticketID(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return hex.EncodeToString(sum[:])
}

// Authenticate spends the ticket of a GET request and returns its Grant. HEAD does not spend a ticket: programs that look at links send it.
func (t *Tickets) Authenticate(r *http.Request) (*auth.Grant, error) {
	if !strings.Contains(r.URL.RawQuery, "ticket") {
		return nil, auth.ErrNoCredential
	}
	if hasTokenInQuery(r.URL.RawQuery) {
		return nil, ErrTokenInQuery
	}
	values, _ := url.ParseQuery(r.URL.RawQuery) // returns what can be read of a malformed query, which the route refuses
	tickets := values["ticket"]
	switch {
	case len(tickets) == 0:
		return nil, auth.ErrNoCredential
	case len(tickets) > 1:
		return nil, invalid(ReasonRepeated)
	case r.Method != http.MethodGet:
		return nil, auth.ErrNoCredential
	case len(tickets[0]) != ticketLength:
		return nil, invalid(ReasonTicket)
	}
	if revoked := t.cfg.Revocations; revoked != nil && !revoked.IsLoaded() { // the ticket must not be spent then
		return nil, &UnavailableError{RetryAfter: time.Second, Cause: errNotLoaded}
	}
	text, err := t.cfg.Store.SpendTicket(r.Context(), ticketID(tickets[0]))
	switch {
	case errors.Is(err, revocation.ErrNoTicket):
		return nil, invalid(ReasonTicket)
	case err != nil:
		return nil, &UnavailableError{RetryAfter: time.Second, Cause: err}
	}
	return t.grant(text)
}

func (t *Tickets) grant(text []byte) (*auth.Grant, error) {
	var s storedTicket
	if err := json.Unmarshal(text, &s); err != nil || !t.cfg.Now().Before(s.UseBefore) {
		return nil, invalid(ReasonTicket)
	}
	g := &auth.Grant{
		Tenant: s.Tenant, Subject: s.Subject, Scopes: auth.ScopeRead, Sessions: auth.Sessions{IDs: []string{s.Session}}, Views: slices.Clone(s.Views),
		IssuedAt: s.IssuedAt, ExpiresAt: s.ExpiresAt, TokenID: s.TokenID, Issuer: s.Issuer,
	}
	if g.Check() != nil {
		return nil, invalid(ReasonTicket)
	}
	return t.cfg.Revocations.unrevoked(g)
}
