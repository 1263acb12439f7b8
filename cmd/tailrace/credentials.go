package main

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/jscredentials"
	"github.com/tailrace/tailrace/sseedge/credentials"
)

// ticketStore is the bucket of credentials as an auth.TicketStore.
type ticketStore struct{ *jscredentials.Store }

// SpendTicket implements auth.TicketStore.
func (s ticketStore) SpendTicket(ctx context.Context, id string) ([]byte, error) {
	ticket, err := s.Store.SpendTicket(ctx, id)
	if errors.Is(err, jscredentials.ErrNoTicket) {
		return nil, auth.ErrNoTicket
	}
	return ticket, err
}

// newTickets returns the tickets of the edge, nil if requests are not authenticated.
func (f *httpServer) newTickets() (*auth.Tickets, error) {
	if f.auth.routes == nil {
		return nil, nil //nolint:nilnil // no tickets are issued
	}
	return auth.NewTickets(auth.TicketsConfig{Store: ticketStore{f.credentials}, Revocations: f.auth.revocations})
}

// mountCredentials adds the routes that turn one credential into another one.
func (f *httpServer) mountCredentials(tickets *auth.Tickets) error {
	if f.auth.routes == nil {
		return nil
	}
	cfg := *f.auth.routes
	cfg.Tickets = tickets
	_, err := credentials.New(f.edge, cfg)
	return err
}
