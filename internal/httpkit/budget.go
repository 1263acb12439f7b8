package httpkit

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/tailrace/tailrace/internal/authn"
)

// Budget is an amount that the requests of all clients share: bytes of memory, or connections. A tenant, or a public address, that has some of it gets more only if at
// least as much as it has then stays free. So one of them has at most half, two a third each, and some is always left for another one. Without that,
//  1. a tenant opens requests that hold all of the memory for bodies, and sends nothing,
//  2. no other tenant could send a message.
//
// A client that has nothing may get everything that is free at once, since a long conversation is read as a whole or not at all.
type Budget struct {
	limit int64 // negative: unlimited

	mu      sync.Mutex // guards everything below
	inUse   int64
	held    map[any]int64 // by tenant (string) and by address
	waiting []*waiter
	last    Client // that has waited and got its amount
}

// Client is who takes from a Budget. The zero Client has no shares: only the limit holds.
type Client struct {
	tenant  string
	address netip.Addr // valid for a public one; others are more often those of a proxy than of one client
}

// ClientOf returns the client of a request that a Router serves. Requests for streams have no address.
func ClientOf(ctx context.Context) Client {
	c := Client{}
	if g, ok := authn.FromContext(ctx); ok {
		c.tenant = g.Tenant
	}
	c.address, _ = ctx.Value(addressKey{}).(netip.Addr)
	return c
}

type addressKey struct{}

// ErrBudget reports that too little of a Budget was free until the end of the context.
var ErrBudget = errors.New("budget in use")

type waiter struct {
	client Client
	amount int64
	ready  chan struct{} // closed when the waiter has its amount
}

// NewBudget returns a Budget of limit; a negative number is unlimited.
func NewBudget(limit int64) *Budget {
	return &Budget{limit: limit, held: make(map[any]int64)}
}

// Limit is the most that one client may have at once, negative for unlimited.
func (b *Budget) Limit() int64 { return b.limit }

// InUse returns the amount that is in use.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse
}

// Full reports whether nothing is free.
func (b *Budget) Full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit >= 0 && b.inUse >= b.limit
}

// TryTake takes an amount if the client may have it now.
func (b *Budget) TryTake(c Client, amount int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.allows(c, amount) {
		return false
	}
	b.count(c, amount)
	return true
}

// Take takes an amount as soon as the client may have it, and returns ErrBudget if that is not before the context ends.
func (b *Budget) Take(ctx context.Context, c Client, amount int64) error {
	w := &waiter{c, amount, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.grant()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, w)
	if at < 0 {
		return nil // granted meanwhile
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.grant()
	return ErrBudget
}

// Return returns what a client has taken, or a part of it.
func (b *Budget) Return(c Client, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(c, -amount)
	b.grant()
}

// grant gives the waiting clients what they may have, in turn: what the last one still waits for comes behind the others, so that many requests of one do not keep them
// waiting. A client without any amount comes before later ones, whose small amounts could take all that becomes free.
func (b *Budget) grant() {
	for i := 0; i < len(b.waiting); {
		if i == 0 {
			slices.SortStableFunc(b.waiting, func(x, y *waiter) int { return cmp.Compare(b.last.overlaps(x.client), b.last.overlaps(y.client)) })
		}
		w := b.waiting[i]
		switch {
		case b.allows(w.client, w.amount):
			b.count(w.client, w.amount)
			b.last = w.client
			close(w.ready)
			b.waiting = slices.Delete(b.waiting, i, i+1)
			i = 0
		case b.has(w.client) == 0:
			return
		default:
			i++
		}
	}
}

func (b *Budget) allows(c Client, amount int64) bool {
	free, has := b.limit-b.inUse-amount, b.has(c)
	return b.limit < 0 || free >= 0 && (has == 0 || has+amount <= free)
}

// has returns what the tenant or the address of a client has, whichever is more.
func (b *Budget) has(c Client) (most int64) {
	for key := range c.keys {
		most = max(most, b.held[key])
	}
	return most
}

func (b *Budget) count(c Client, by int64) {
	b.inUse += by
	for key := range c.keys {
		if b.held[key] += by; b.held[key] == 0 {
			delete(b.held, key)
		}
	}
}

// overlaps is 1 if a client has the tenant or the address of another one, otherwise 0.
func (c Client) overlaps(with Client) int {
	if c.tenant != "" && c.tenant == with.tenant || c.address.IsValid() && c.address == with.address {
		return 1
	}
	return 0
}

// keys yields the keys of a client in held.
func (c Client) keys(yield func(any) bool) {
	if c.tenant != "" && !yield(c.tenant) {
		return
	}
	if c.address.IsValid() {
		yield(c.address)
	}
}
