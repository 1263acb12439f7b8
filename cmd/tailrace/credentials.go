package main

import "github.com/tailrace/tailrace/auth"

// newTickets returns the tickets of the edge, nil if requests are not authenticated.
func (f *httpServer) newTickets() (*auth.Tickets, error) {
	if f.auth.routes == nil {
		return nil, nil //nolint:nilnil // no tickets are issued
	}
	return auth.NewTickets(auth.TicketsConfig{Store: f.credentials, Revocations: f.auth.revocations})
}
