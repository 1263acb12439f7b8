package jsapi

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func TestLastAndPurge(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	api := New(js)
	if _, err := api.Last(t.Context(), "S", "s.a"); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("nothing is there: %v", err)
	}
	var nobody *jetstream.APIError
	if _, err := api.Last(t.Context(), "NONE", "s.a"); !errors.As(err, &nobody) {
		t.Errorf("no such stream: %v", err)
	}
	for _, subject := range []string{"s.a", "s.b", "s.a", "s.a"} {
		m := nats.NewMsg(subject)
		m.Header.Set("Name", "value")
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	m, err := api.Last(t.Context(), "S", "s.a")
	if err != nil || m.Seq != 4 || m.Header.Get("Name") != "value" || time.Since(m.Time) > time.Minute {
		t.Errorf("last: %+v, %v", m, err)
	}
	for _, want := range []uint64{2, 0} {
		if n, err := api.Purge(t.Context(), "S", "s.a", 4); err != nil || n != want {
			t.Errorf("purged %d, %v; want %d", n, err, want)
		}
	}
	if n, err := api.Purge(t.Context(), "S", "s.*", 0); err != nil || n != 2 {
		t.Errorf("purged %d, %v; want 2", n, err)
	}
}

// A domain and a prefix of one's own are heeded.
func TestPrefix(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.JetStream(t).Conn()
	for _, c := range []struct {
		make      func() (jetstream.JetStream, error)
		published string
	}{
		{func() (jetstream.JetStream, error) { return jetstream.New(nc) }, "$KV.B.k"},
		{func() (jetstream.JetStream, error) { return jetstream.NewWithDomain(nc, "hub") }, "$JS.hub.API.$KV.B.k"},
		{func() (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "theirs") }, "theirs.$KV.B.k"},
	} {
		js, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		if got := New(js).Published("$KV.B.k"); got != c.published {
			t.Errorf("published under %s, want %s", got, c.published)
		}
	}
}
