package authtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/revocation"
)

// NewTickets returns tickets that are stored in memory.
func NewTickets(tb testing.TB) *authn.Tickets {
	tb.Helper()
	tickets, err := authn.NewTickets(authn.TicketsConfig{Store: &ticketStore{tickets: map[string][]byte{}}})
	if err != nil {
		tb.Fatal(err)
	}
	return tickets
}

type ticketStore struct {
	mu      sync.Mutex // guards tickets
	tickets map[string][]byte
}

func (s *ticketStore) PutTicket(_ context.Context, id string, ticket []byte, _ time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets[id] = ticket
	return nil
}

func (s *ticketStore) SpendTicket(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ticket, ok := s.tickets[id]
	if !ok {
		return nil, revocation.ErrNoTicket
	}
	delete(s.tickets, id)
	return ticket, nil
}
