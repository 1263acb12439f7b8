package jsclient

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func TestLastAndPurge(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	c := New(js)
	if _, err := c.Last(t.Context(), "S", "s.a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("empty stream: %v", err)
	}
	var refused *jetstream.APIError
	if _, err := c.Last(t.Context(), "NONE", "s.a"); !errors.As(err, &refused) {
		t.Errorf("missing stream: %v", err)
	}
	for _, subject := range []string{"s.a", "s.b", "s.a", "s.a"} {
		m := nats.NewMsg(subject)
		m.Header.Set("Name", "value")
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	m, err := c.Last(t.Context(), "S", "s.a")
	if err != nil || m.Seq != 4 || m.Header.Get("Name") != "value" || time.Since(m.Stored) > time.Minute {
		t.Errorf("last: %+v, %v", m, err)
	}
	for _, want := range []uint64{2, 0} {
		if n, err := c.Purge(t.Context(), "S", "s.a", 4); err != nil || n != want {
			t.Errorf("purged %d, %v; want %d", n, err, want)
		}
	}
	if n, err := c.Purge(t.Context(), "S", "s.*", 0); err != nil || n != 2 {
		t.Errorf("purged %d, %v; want 2", n, err)
	}
}

// New uses the domain or the API prefix of the connection.
func TestPrefix(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.JetStream(t).Conn()
	for _, tc := range []struct {
		make      func() (jetstream.JetStream, error)
		published string
	}{
		{func() (jetstream.JetStream, error) { return jetstream.New(nc) }, "$KV.B.k"},
		{func() (jetstream.JetStream, error) { return jetstream.NewWithDomain(nc, "hub") }, "$JS.hub.API.$KV.B.k"},
		{func() (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "other") }, "other.$KV.B.k"},
	} {
		js, err := tc.make()
		if err != nil {
			t.Fatal(err)
		}
		if got := New(js).PublishSubject("$KV.B.k"); got != tc.published {
			t.Errorf("publish subject %s, want %s", got, tc.published)
		}
		for _, subject := range []string{"$O.B.C.k", "tr.chunks.0.a.b.c"} {
			if got := New(js).PublishSubject(subject); got != subject {
				t.Errorf("publish subject %s, want %s", got, subject)
			}
		}
	}
}
