package consumers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// A JetStream domain has another API prefix, and its servers may write other
// reply subjects.
func TestJetStreamDomain(t *testing.T) {
	srv := natstest.Start(t, natstest.ServerConfig(`jetstream: {domain: "hub"}`))
	nc := srv.Conn(t)
	for name, open := range map[string]func() (jetstream.JetStream, error){
		"by name":   func() (jetstream.JetStream, error) { return jetstream.NewWithDomain(nc, "hub") },
		"by prefix": func() (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "$JS.hub.API") },
	} {
		t.Run(name, func(t *testing.T) {
			js, err := open()
			if err != nil {
				t.Fatal(err)
			}
			if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
				t.Fatal(err)
			}
			w := &world{t: t, srv: srv, js: js, next: map[chunk.Session]chunk.Ordinal{}}
			s := chunk.RootSession("acme", "by"+name[3:])
			if w.reader, err = New(nc, js, Config{}); err != nil {
				t.Fatal(err)
			}
			want := w.sayAll(s, 5)
			got, err := collect(w.reader.Replay(t.Context(), s, chunk.Position{Seq: want[1].Seq}))
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, want[2:])
			last, err := w.reader.Last(t.Context(), s)
			if err != nil || last.Seq != want[4].Seq {
				t.Errorf("Last = %d, %v; want %d", last.Seq, err, want[4].Seq)
			}
			w.noConsumers()
		})
	}
}

func TestNewLeaderMayBeBehindForAWhile(t *testing.T) {
	b := bookmark{created: time.Unix(1, 0), seq: 10}
	state := streamState{created: time.Unix(1, 0), last: 8, replicas: 3}
	if err := b.compare(context.Background(), nil, stream, state); err == nil || errors.Is(err, errRecreated) {
		t.Errorf("a leader that is behind: err = %v, want another try", err)
	}
	b.behindSince = time.Now().Add(-2 * grace)
	if err := b.compare(context.Background(), nil, stream, state); !errors.Is(err, errRecreated) {
		t.Errorf("a leader that stays behind: err = %v, want errRecreated", err)
	}
	state.last = 10
	if err := b.compare(context.Background(), nil, stream, state); err != nil || !b.behindSince.IsZero() {
		t.Errorf("a leader that has caught up: err = %v", err)
	}
	state.created = time.Unix(2, 0)
	if err := b.compare(context.Background(), nil, stream, state); !errors.Is(err, errRecreated) {
		t.Errorf("another stream: err = %v, want errRecreated", err)
	}
}

func TestServerTooOld(t *testing.T) {
	for version, want := range map[string]bool{"2.9.1": true, "2.13.0": true, "2.14.0": false, "2.15.2": false, "3.0.0": false, "": false, "dev": false} {
		if tooOld(version) != want {
			t.Errorf("%q: %v, want %v", version, !want, want)
		}
	}
}
