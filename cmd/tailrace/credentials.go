package main

import (
	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/sseedge/credentials"
)

// newTickets returns the tickets of the edge, nil if requests are not authenticated.
func (f *httpServer) newTickets() (*auth.Tickets, error) {
	if f.auth.routes == nil {
		return nil, nil //nolint:nilnil // no tickets are issued
	}
	return auth.NewTickets(auth.TicketsConfig{Store: f.credentials, Revocations: f.auth.revocations})
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
