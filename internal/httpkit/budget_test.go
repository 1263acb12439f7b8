package httpkit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Any number of tenants that take all that they can get leave something to the next one, and none has more than half.
func TestBudgetLeavesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1<<10, 1<<20).Draw(t, "limit")
		b := NewBudget(limit)
		piece := rapid.Int64Range(1, limit/64).Draw(t, "piece")
		for n := range rapid.IntRange(1, 5).Draw(t, "tenants") {
			c := Client{tenant: fmt.Sprint("hostile", n)}
			for b.TryTake(c, piece) {
			}
			if has := b.has(c); has > limit/2+piece || has == 0 {
				t.Fatalf("tenant %d has %d of %d", n, has, limit)
			}
		}
		if !b.TryTake(Client{tenant: "normal"}, piece) {
			t.Fatalf("%d of %d are in use, and a normal tenant gets nothing", b.InUse(), limit)
		}
	})
}

// An address has a share as a tenant has, so that one user of a tenant does not take that of the others.
func TestBudgetOfAnAddress(t *testing.T) {
	b := NewBudget(100)
	hostile := Client{"acme", netip.MustParseAddr("198.51.100.1")}
	for b.TryTake(hostile, 1) {
	}
	if has := b.InUse(); has != 50 {
		t.Errorf("one address has %d of 100", has)
	}
	if !b.TryTake(Client{"other", netip.MustParseAddr("198.51.100.2")}, 20) || b.TryTake(Client{"third", hostile.address}, 1) {
		t.Error("want some for another address, and none for the first one with another tenant")
	}
	b.Return(hostile, 50)
	b.Return(Client{"other", netip.MustParseAddr("198.51.100.2")}, 20)
	if len(b.held) != 0 || b.InUse() != 0 {
		t.Errorf("%v are held of %d", b.held, b.InUse())
	}
}

// A tenant that waits with many requests does not keep another one waiting for more than the request that is served.
func TestBudgetIsSharedByThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		var mu sync.Mutex
		var order []string
		var requests sync.WaitGroup
		request := func(tenant string) {
			requests.Go(func() {
				c := Client{tenant: tenant}
				if err := b.Take(t.Context(), c, 80); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				time.Sleep(time.Second)
				b.Return(c, 80)
			})
			synctest.Wait()
		}
		for range 5 {
			request("hostile")
		}
		request("normal")
		requests.Wait()
		if want := []string{"hostile", "normal", "hostile", "hostile", "hostile", "hostile"}; !slices.Equal(order, want) {
			t.Errorf("served in the order %v, want %v", order, want)
		}
	})
}

// A large request of a client without any amount comes before later small ones, and one whose context ends does not block the others.
func TestBudgetAdmitsLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		small := func() {
			for n := range 100 {
				c := Client{tenant: fmt.Sprint("t", n%10)}
				if b.Take(t.Context(), c, 10) == nil {
					time.AfterFunc(time.Second, func() { b.Return(c, 10) })
				}
				time.Sleep(90 * time.Millisecond)
			}
		}
		go small()
		time.Sleep(2 * time.Second)
		large := Client{tenant: "large"}
		began := time.Now()
		if err := b.Take(t.Context(), large, 90); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		waits := make(chan error)
		go func() { waits <- b.Take(ctx, Client{tenant: "huge"}, 100) }()
		if err := <-waits; !errors.Is(err, ErrBudget) {
			t.Errorf("a request whose context ends: %v", err)
		}
		b.Return(large, 90)
		time.Sleep(time.Minute)
		if b.InUse() != 0 || len(b.waiting) != 0 {
			t.Errorf("%d in use, %d wait", b.InUse(), len(b.waiting))
		}
	})
}
