package jscredentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

// known is a Set that a test can look at.
type known struct {
	mu      sync.Mutex                       // guards revoked
	revoked map[string]revocation.Revocation // by "tenant/token" or "tenant//subject"
	loaded  chan struct{}
}

func nameOf(r revocation.Revocation) string {
	if r.TokenID != "" {
		return r.Tenant + "/" + r.TokenID
	}
	return r.Tenant + "//" + r.Subject
}

func (k *known) Apply(r revocation.Revocation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Lifted {
		delete(k.revoked, nameOf(r))
		return
	}
	k.revoked[nameOf(r)] = r
}

func (k *known) Loaded() {
	select {
	case k.loaded <- struct{}{}:
	default:
	}
}

func (k *known) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.revoked))
}

// follow follows the revocations until the test ends.
func follow(t *testing.T, s *Store) *known {
	t.Helper()
	k := &known{revoked: map[string]revocation.Revocation{}, loaded: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Follow(ctx, k) }()
	t.Cleanup(func() {
		cancel()
		if err := natstest.Receive(t, "the end of Follow", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Follow: %v", err)
		}
	})
	return k
}

func (k *known) await(t *testing.T, want ...string) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprint("revocations ", want), func(context.Context) error {
		if got := k.names(); !slices.Equal(got, want) {
			return fmt.Errorf("revocations %q", got)
		}
		return nil
	})
}

func revoke(t *testing.T, s *Store, r revocation.Revocation) {
	t.Helper()
	if err := s.Revoke(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func token(tenant, id string) revocation.Revocation {
	return revocation.Revocation{Tenant: tenant, TokenID: id, By: &chunk.Principal{Subject: "admin"}}
}

// A follower has all revocations when it is loaded, and gets each later one, with the time at which the server stored it. The permissions of an edge
// suffice.
func TestFollow(t *testing.T) {
	users := roletest.New(t, natsauth.Config{})
	srv := natstest.Start(t, users.Server())
	streamtest.Ensure(t, srv.JetStream(t), topology.Config{})
	all := newStore(t, srv.JetStream(t))
	edge, err := New(srv.JetStream(t, users.Options(t, natsauth.Edge)...), Config{RetryTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	revoke(t, edge, token("acme", "t1"))
	revoke(t, all, revocation.Revocation{Tenant: "globex", Subject: "u1"})
	putTicket(t, edge, "x", time.Minute)
	k := follow(t, edge)
	natstest.Receive(t, "the end of the load", k.loaded)
	if got, want := k.names(), []string{"acme/t1", "globex//u1"}; !slices.Equal(got, want) {
		t.Errorf("when it is loaded: %q, want %q", got, want)
	}
	r := k.revoked["acme/t1"]
	if time.Since(r.At) > time.Minute || r.Until.Sub(r.At) != revocation.Lifetime || r.By == nil || r.By.Subject != "admin" {
		t.Errorf("the revocation is %+v", r)
	}
	revoke(t, edge, revocation.Revocation{Tenant: "acme", Subject: "u2"})
	k.await(t, "acme//u2", "acme/t1", "globex//u1")
	revoke(t, edge, revocation.Revocation{Tenant: "acme", TokenID: "t1", Lifted: true})
	k.await(t, "acme//u2", "globex//u1")
	list, err := edge.List(t.Context(), "acme")
	if err != nil || len(list) != 1 || list[0].Subject != "u2" {
		t.Errorf("the list is %+v, %v", list, err)
	}
	for name, r := range map[string]revocation.Revocation{
		"nothing": {Tenant: "acme"}, "both": {Tenant: "acme", TokenID: "t", Subject: "s"}, "no tenant": {TokenID: "t"}, "a filter": {Tenant: "*", TokenID: "t"},
		"text that is not UTF-8": {Tenant: "acme", TokenID: "\xff"}, "a long id": {Tenant: "acme", TokenID: string(make([]byte, 129))},
	} {
		if err := edge.Revoke(t.Context(), r); !errors.Is(err, chunk.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A message that cannot be read as a revocation, or that is stored under another key, revokes nothing and does not stop the follower.
func TestMalformedRevocations(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	s := newStore(t, js)
	good, err := token("acme", "t1").Key()
	if err != nil {
		t.Fatal(err)
	}
	k := follow(t, s)
	for key, value := range map[string]string{
		good:                          `{"tenant":"globex","tokenId":"t1"}`,
		"revoked.acme.token.x":        `{"tenant":"acme","tokenId":"t2"}`,
		"revoked.acme.subject.y":      `{`,
		"revoked.acme":                `{"tenant":"acme","tokenId":"t3"}`,
		"revoked.acme.token.deeper.z": ``,
	} {
		if _, err := js.Publish(t.Context(), s.subject(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	revoke(t, s, token("acme", "t4"))
	k.await(t, "acme/t4")
}

// A follower survives the restart of its server, a lost connection, and a bucket that is deleted and created again; it forgets nothing meanwhile.
func TestFollowOverOutages(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	s := newStore(t, js)
	proxy := natstest.StartProxy(t, srv.URL)
	revoke(t, s, token("acme", "t1"))
	k := follow(t, newStore(t, natstest.JetStream(t, proxy.URL)))
	k.await(t, "acme/t1")

	proxy.Refuse()
	proxy.CloseConnections()
	revoke(t, s, token("acme", "t2"))
	if got := k.names(); len(got) != 1 {
		t.Errorf("without a connection: %q", got)
	}
	proxy.Restore()
	k.await(t, "acme/t1", "acme/t2")

	srv.Restart(t)
	natstest.Eventually(t, "a revocation after the restart", func(ctx context.Context) error { return s.Revoke(ctx, token("acme", "t3")) })
	k.await(t, "acme/t1", "acme/t2", "acme/t3")

	if err := js.DeleteStream(t.Context(), "KV_TR_CREDENTIALS"); err != nil {
		t.Fatal(err)
	}
	streamtest.Ensure(t, js, topology.Config{})
	revoke(t, s, token("acme", "t4"))
	k.await(t, "acme/t1", "acme/t2", "acme/t3", "acme/t4")
}

// A follower of a bucket that does not exist yet waits for it, and is not loaded before.
func TestFollowWithoutBucket(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	s := newStore(t, js)
	k := follow(t, s)
	hasty, err := New(js, Config{RetryTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := hasty.Revoke(t.Context(), token("acme", "t1")); err == nil {
		t.Error("a revocation was stored without a bucket")
	}
	if len(k.loaded) > 0 {
		t.Error("the follower is loaded without a bucket")
	}
	streamtest.Ensure(t, js, topology.Config{})
	natstest.Receive(t, "the end of the load", k.loaded)
	revoke(t, s, token("acme", "t1"))
	k.await(t, "acme/t1")
}

// A follower with many revocations is loaded after all of them, also on a cluster whose replicas lag and whose leader changes.
func TestLoadOnACluster(t *testing.T) {
	cluster := streamtest.StartCluster(t)
	s := newStore(t, cluster.JetStream(t))
	var want []string
	var writing sync.WaitGroup
	for n := range 200 {
		r := token("acme", fmt.Sprintf("t%03d", n))
		want = append(want, nameOf(r))
		writing.Go(func() {
			if err := s.Revoke(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	for n := range 5 {
		k := follow(t, newStore(t, cluster.JetStream(t)))
		natstest.Receive(t, "the end of the load", k.loaded)
		if got := k.names(); !slices.Equal(got, want) {
			t.Errorf("load %d: %d revocations, want %d", n, len(got), len(want))
		}
		cluster.StepDown(t, "KV_TR_CREDENTIALS")
	}
}

// What a revocation costs the server for its lifetime.
func TestSizeOfRevocation(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	s := newStore(t, js)
	for range 2 {
		revoke(t, s, token("acme", "018f3c1e-5f7a-7c52-9a55-0d9d6f7f9d01"))
	}
	stream, err := js.Stream(t.Context(), "KV_TR_CREDENTIALS")
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	t.Logf("%d bytes", state.Bytes)
	if state.Msgs != 1 || state.Bytes > 500 {
		t.Errorf("%d messages with %d bytes, want 1 with at most 500", state.Msgs, state.Bytes)
	}
	m, err := stream.GetMsg(t.Context(), state.LastSeq)
	if err != nil || m.Header.Get(jetstream.MsgTTLHeader) != revocation.Lifetime.String() {
		t.Errorf("%+v, %v", m, err)
	}
}
