package authn

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/revocation"
)

// ticketMap is a TicketStore in memory.
type ticketMap struct {
	mu      sync.Mutex
	tickets map[string][]byte
	err     error
}

func (m *ticketMap) PutTicket(_ context.Context, id string, ticket []byte, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.tickets[id] = ticket
	return nil
}

func (m *ticketMap) SpendTicket(_ context.Context, id string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ticket, ok := m.tickets[id]
	delete(m.tickets, id)
	switch {
	case m.err != nil:
		return nil, m.err
	case !ok:
		return nil, revocation.ErrNoTicket
	}
	return ticket, nil
}

func ticketRequest(method, query string) *http.Request {
	r := request("")
	r.Method, r.URL = method, &url.URL{Path: "/v1/sessions/s1/events", RawQuery: query}
	return r
}

// A ticket is for one request, reads one session, and has the views, the expiry and the token id of the credential that made it.
func TestTicket(t *testing.T) {
	clock, store := newClock(), &ticketMap{tickets: map[string][]byte{}}
	revocations := NewRevocations()
	tickets, err := NewTickets(TicketsConfig{Store: store, Now: clock.now, Revocations: revocations})
	if err != nil {
		t.Fatal(err)
	}
	maker := &auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, IssuedAt: time.Now().Truncate(time.Second), ExpiresAt: start.Add(time.Hour), TokenID: "t1", Issuer: "app"}
	issue := func() string {
		t.Helper()
		ticket, useBefore, err := tickets.Issue(t.Context(), maker, "s1", []string{"customer"})
		if err != nil || !useBefore.After(clock.now()) || useBefore.After(clock.now().Add(TicketTTL)) {
			t.Fatalf("%v, %v", useBefore, err)
		}
		return ticket
	}
	ticket := issue()
	for id, text := range store.tickets {
		if _, err := hex.DecodeString(id); err != nil || strings.Contains(id+string(text), ticket) {
			t.Errorf("stored as %s %s", id, text)
		}
	}
	if g, err := tickets.Authenticate(ticketRequest("GET", "ticket="+ticket)); g != nil || !errors.Is(err, auth.ErrUnavailable) {
		t.Errorf("before the revocations are loaded: %v, %v", g, err)
	}
	revocations.Loaded()
	g, err := tickets.Authenticate(ticketRequest("GET", "after=1&ticket="+ticket))
	if err != nil {
		t.Fatal(err)
	}
	if g.Scopes != auth.ScopeRead || g.Sessions.All || g.Sessions.Own || !g.AllowsSession("s1", "") || g.AllowsSession("s2", "ann") || !Covers(maker, &auth.Grant{
		Tenant: g.Tenant, Scopes: g.Scopes, Sessions: g.Sessions, ExpiresAt: g.ExpiresAt}) {
		t.Errorf("%+v", g)
	}
	if g.Subject != "ann" || g.TokenID != "t1" || g.Issuer != "app" || !g.IssuedAt.Equal(maker.IssuedAt) || !g.ExpiresAt.Equal(maker.ExpiresAt) || len(g.Views) != 1 || g.Views[0] != "customer" {
		t.Errorf("%+v", g)
	}
	_, err = tickets.Authenticate(ticketRequest("GET", "ticket="+ticket))
	wantReason(t, err, ReasonTicket, "")

	good := sign(sessionHeader, sessionClaimsAt(start), edKey())
	for name, c := range map[string]struct {
		method, query string
		want          error
	}{
		"none":                   {"GET", "after=1", auth.ErrNoCredential},
		"another parameter":      {"GET", "tickets=1", auth.ErrNoCredential},
		"HEAD":                   {"HEAD", "ticket=" + issue(), auth.ErrNoCredential},
		"empty":                  {"GET", "ticket=", auth.ErrInvalid},
		"short":                  {"GET", "ticket=A", auth.ErrInvalid},
		"long":                   {"GET", "ticket=" + strings.Repeat("A", 1<<20), auth.ErrInvalid},
		"guessed":                {"GET", "ticket=" + strings.Repeat("A", ticketLength), auth.ErrInvalid},
		"another case":           {"GET", "ticket=" + strings.ToLower(issue()), auth.ErrInvalid},
		"two":                    {"GET", "ticket=" + issue() + "&ticket=" + issue(), auth.ErrInvalid},
		"a token as ticket":      {"GET", "ticket=" + good, ErrTokenInQuery},
		"with a token":           {"GET", "ticket=" + issue() + "&access_token=x", ErrTokenInQuery},
		"with a token elsewhere": {"GET", "ticket=" + issue() + "&after=" + good, ErrTokenInQuery},
	} {
		before := len(store.tickets)
		g, err := tickets.Authenticate(ticketRequest(c.method, c.query))
		if !errors.Is(err, c.want) || g != nil {
			t.Errorf("%s: %v, %v", name, g, err)
		}
		if len(store.tickets) != before {
			t.Errorf("%s: a ticket was spent", name)
		}
	}

	ticket = issue()
	clock.add(TicketTTL)
	_, err = tickets.Authenticate(ticketRequest("GET", "ticket="+ticket)) // the store keeps it longer
	wantReason(t, err, ReasonTicket, "")
	maker.ExpiresAt = clock.now().Add(time.Second)
	ticket = issue()
	clock.add(time.Second)
	_, err = tickets.Authenticate(ticketRequest("GET", "ticket="+ticket))
	wantReason(t, err, ReasonTicket, "")
	maker.ExpiresAt = time.Time{}
	if _, err := tickets.Authenticate(ticketRequest("GET", "ticket="+issue())); err != nil {
		t.Errorf("before the revocation: %v", err)
	}
	for name, r := range map[string]revocation.Revocation{"token": {TokenID: "t1"}, "subject": {Subject: "ann"}} {
		ticket = issue()
		r.Tenant, r.At, r.Until = "acme", time.Now(), time.Now().Add(time.Hour)
		revocations.Apply(r)
		g, err := tickets.Authenticate(ticketRequest("GET", "ticket="+ticket))
		if wantReason(t, err, ReasonRevoked, ""); g != nil {
			t.Errorf("revoked %s: %v", name, g)
		}
		r.Lifted = true
		revocations.Apply(r)
	}
	store.err = errors.New("away")
	if g, err := tickets.Authenticate(ticketRequest("GET", "ticket="+strings.Repeat("A", ticketLength))); g != nil || !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrInvalid) {
		t.Errorf("store away: %v, %v", g, err)
	}
	if _, _, err := tickets.Issue(t.Context(), maker, "s1", nil); err == nil {
		t.Error("issued a ticket that was not stored")
	}
}
