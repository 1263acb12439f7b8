package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// A server that maps subjects by partition(P) computes the same partition as subjects, so that the server can route messages of a producer that does not know
// the rule.
func TestPartitionIsTheServers(t *testing.T) {
	srv := natstest.Start(t, natstest.WithoutJetStream(), natstest.ServerConfig(`
		mappings = {
			"*.*": "mapped.{{partition(7)}}.{{wildcard(1)}}.{{wildcard(2)}}"
		}`))
	nc := srv.Conn(t)
	sub, err := nc.SubscribeSync("mapped.>")
	if err != nil {
		t.Fatal(err)
	}
	layout := subjects.Layout{Partitions: 7}
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	rapid.Check(t, func(t *rapid.T) {
		s := chunk.Session{Tenant: token.Draw(t, "tenant"), Root: token.Draw(t, "root"), ID: token.Draw(t, "session")}
		if err := nc.Publish(s.Tenant+"."+s.Root, nil); err != nil {
			t.Fatal(err)
		}
		msg := next(t, sub)
		subject, err := layout.Subject(s)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimPrefix(strings.TrimSuffix(subject, "."+s.ID), "tr.chunks.")
		if got := strings.TrimPrefix(msg.Subject, "mapped."); got != want {
			t.Fatalf("the server maps %s.%s to %q, we to %q", s.Tenant, s.Root, got, want)
		}
	})
}

func next(t *rapid.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	msg, err := sub.NextMsg(30 * time.Second)
	if err != nil {
		t.Fatalf("the mapped message: %v", err)
	}
	return msg
}

// A record is stored in the stream of its partition and in no other.
func TestEachPartitionIsAStream(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	layout := subjects.Layout{Partitions: 5}
	if err := Ensure(t.Context(), js, Config{Layout: layout}); err != nil {
		t.Fatal(err)
	}
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
	rapid.Check(t, func(rt *rapid.T) {
		s := chunk.Session{Tenant: token.Draw(rt, "tenant"), Root: token.Draw(rt, "root"), ID: token.Draw(rt, "session")}
		subject, err := layout.Subject(s)
		if err != nil {
			rt.Fatal(err)
		}
		ack, err := js.Publish(t.Context(), subject, nil)
		if err != nil || ack.Stream != layout.Stream(layout.Partition(s)) {
			rt.Fatalf("publish %s = %+v, %v; want stream %s", subject, ack, err, layout.Stream(layout.Partition(s)))
		}
	})
}

// The server accepts the longest valid names: the log and the bucket store them, and the connection stays open.
func TestTheLongestNames(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	long := strings.Repeat("x", subjects.MaxToken)
	layout := subjects.Layout{Prefix: strings.Repeat("p", 63) + "." + strings.Repeat("q", 64), Partitions: 2}
	if err := Ensure(t.Context(), js, Config{Layout: layout}); err != nil {
		t.Fatal(err)
	}
	s := chunk.Session{Tenant: long, Root: long, ID: long}
	subject, err := layout.Subject(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), subject, nil); err != nil {
		t.Errorf("a subject of %d bytes: %v", len(subject), err)
	}
	key, err := names.SnapshotPackKey(s, 1<<63)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), names.Layout(layout).Snapshots())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), key, nil); err != nil {
		t.Errorf("a key of %d bytes: %v", len(key), err)
	}
	if n := js.Conn().Stats().Reconnects; n != 0 || !js.Conn().IsConnected() {
		t.Errorf("the connection suffered: %d reconnects", n)
	}
}
