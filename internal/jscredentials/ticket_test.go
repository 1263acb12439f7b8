package jscredentials

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

func putTicket(t *testing.T, s *Store, id string, ttl time.Duration) {
	t.Helper()
	if err := s.PutTicket(t.Context(), id, []byte("of "+id), ttl); err != nil {
		t.Fatal(err)
	}
}

// wantSpent checks that a ticket cannot be spent.
func wantSpent(t *testing.T, s *Store, id string) {
	t.Helper()
	if ticket, err := s.SpendTicket(t.Context(), id); !errors.Is(err, revocation.ErrNoTicket) || ticket != nil {
		t.Errorf("ticket %s: %q, %v, want ErrNoTicket", id, ticket, err)
	}
}

// A ticket is spent once, by an edge with the permissions of its role. Its id is not in the bucket.
func TestTicket(t *testing.T) {
	users := roletest.New(t, natsauth.Config{})
	srv := natstest.Start(t, users.Server())
	js := srv.JetStream(t)
	streamtest.Ensure(t, js, topology.Config{})
	s := newStore(t, srv.JetStream(t, users.Options(t, natsauth.Edge)...))
	putTicket(t, s, "t1", time.Minute)
	if err := s.PutTicket(t.Context(), "t1", []byte("another"), time.Minute); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("an id in use: %v", err)
	}
	if ticket, err := s.SpendTicket(t.Context(), "t1"); err != nil || string(ticket) != "of t1" {
		t.Errorf("%q, %v", ticket, err)
	}
	for _, id := range []string{"t1", "t2", ""} {
		wantSpent(t, s, id)
	}
	if err := s.PutTicket(t.Context(), "t1", []byte("another"), time.Minute); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("the id of a spent ticket: %v", err)
	}
	for name, err := range map[string]error{
		"no id":     s.PutTicket(t.Context(), "", []byte("x"), time.Minute),
		"no ticket": s.PutTicket(t.Context(), "t3", nil, time.Minute),
		"no time":   s.PutTicket(t.Context(), "t3", []byte("x"), time.Millisecond),
	} {
		if !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stream, err := js.Stream(t.Context(), "KV_TR_CREDENTIALS")
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), stream.CachedInfo().State.LastSeq)
	if err != nil || strings.Contains(m.Subject, "t1") {
		t.Errorf("the subject of a ticket: %v, %v", m, err)
	}
}

// An unused ticket is gone after its time, and the server has nothing of it.
func TestTicketExpires(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	s := newStore(t, js)
	putTicket(t, s, "t1", time.Second)
	natstest.Eventually(t, "the end of the ticket", func(ctx context.Context) error {
		stream, err := js.Stream(ctx, "KV_TR_CREDENTIALS")
		if err == nil && stream.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d messages", stream.CachedInfo().State.Msgs)
		}
		return err
	})
	wantSpent(t, s, "t1")
}

// spend lets many stores spend one ticket at the same time, and returns how many got it and how many do not know.
func spend(t *testing.T, stores []*Store, id string) (got, unknown int) {
	t.Helper()
	var mu sync.Mutex
	var spending sync.WaitGroup
	start := make(chan struct{})
	for _, s := range stores {
		spending.Go(func() {
			<-start
			ticket, err := s.SpendTicket(t.Context(), id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && string(ticket) == "of "+id:
				got++
			case err == nil:
				t.Errorf("ticket %s has the content %q", id, ticket)
			case !errors.Is(err, revocation.ErrNoTicket):
				unknown++
			}
		})
	}
	close(start)
	spending.Wait()
	return got, unknown
}

// Of many spenders at the same time exactly one gets a ticket, whatever the order.
func TestOneSpender(t *testing.T) {
	srv := streamtest.Start(t)
	var stores []*Store
	for range 4 {
		s := newStore(t, srv.JetStream(t))
		stores = append(stores, s, s, s, s)
	}
	for n := range 200 {
		id := fmt.Sprint("t", n)
		putTicket(t, stores[n%len(stores)], id, time.Minute)
		if got, unknown := spend(t, stores, id); got != 1 || unknown != 0 {
			t.Errorf("%s: %d spenders got the ticket, %d do not know", id, got, unknown)
		}
		wantSpent(t, stores[0], id)
	}
}

// Responses of the server are lost: a spender that does not know whether it got the ticket repeats its request, and no second one gets it.
func TestOneSpenderWithLostResponses(t *testing.T) {
	srv := streamtest.Start(t)
	random := seedtest.Rand(t)
	proxy := natstest.StartFaultProxy(t, srv.URL)
	stores := make([]*Store, 8)
	for i := range stores {
		stores[i] = newStore(t, natstest.JetStream(t, proxy.URL))
	}
	direct := newStore(t, srv.JetStream(t))
	lost := 0
	proxy.SetResponseFaults(func([]byte) bool {
		if random.IntN(5) > 0 {
			return false
		}
		lost++
		return true
	})
	var rounds sync.WaitGroup
	for n := range 12 {
		rounds.Go(func() {
			id := fmt.Sprint("t", n)
			putTicket(t, direct, id, time.Minute)
			if got, unknown := spend(t, stores, id); got > 1 || got == 0 && unknown == 0 {
				t.Errorf("%s: %d spenders got the ticket, %d do not know", id, got, unknown)
			}
			wantSpent(t, direct, id)
		})
	}
	rounds.Wait()
	proxy.SetResponseFaults(func([]byte) bool { return false })
	if lost == 0 {
		t.Error("no response was lost")
	}
	t.Logf("%d responses lost", lost)
}

// Every response to the first attempt of the only spender is lost. It finds out that the ticket is its own.
func TestSpenderFindsOutThatItGotTheTicket(t *testing.T) {
	srv := streamtest.Start(t)
	direct := newStore(t, srv.JetStream(t))
	proxy := natstest.StartFaultProxy(t, srv.URL)
	far := newStore(t, natstest.JetStream(t, proxy.URL))
	putTicket(t, direct, "t1", time.Minute)
	lost := false
	proxy.SetResponseFaults(func(answer []byte) bool {
		if lost || !strings.Contains(string(answer), `"seq"`) || strings.Contains(string(answer), "message") {
			return false
		}
		lost = true
		return true
	})
	if ticket, err := far.SpendTicket(t.Context(), "t1"); err != nil || string(ticket) != "of t1" {
		t.Errorf("%q, %v", ticket, err)
	}
	proxy.SetResponseFaults(func([]byte) bool { return false })
	if !lost {
		t.Error("no response was lost")
	}
	wantSpent(t, direct, "t1")
}

// The leader of the bucket changes while tickets are spent.
func TestOneSpenderOnACluster(t *testing.T) {
	cluster := streamtest.StartCluster(t)
	cluster.AwaitCurrent(t, "KV_TR_CREDENTIALS")
	stores := make([]*Store, 6)
	for i := range stores {
		stores[i] = newStore(t, cluster.JetStream(t))
	}
	for n := range 8 {
		id := fmt.Sprint("t", n)
		putTicket(t, stores[n%len(stores)], id, time.Minute)
		var spending sync.WaitGroup
		spending.Go(func() {
			if got, unknown := spend(t, stores, id); got > 1 || got == 0 && unknown == 0 {
				t.Errorf("%s: %d spenders got the ticket, %d do not know", id, got, unknown)
			}
		})
		cluster.StepDown(t, "KV_TR_CREDENTIALS")
		spending.Wait()
		wantSpent(t, stores[0], id)
	}
}
