package consumers

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

// A JetStream domain has another API prefix, and its servers may use other reply subjects.
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
			streamtest.Ensure(t, js, topology.Config{})
			w := &env{t: t, srv: srv, js: js, next: map[chunk.Session]chunk.Ordinal{}}
			s := chunk.RootSession("acme", "by"+name[3:])
			if w.reader, err = New(js, Config{}); err != nil {
				t.Fatal(err)
			}
			want := w.sayAll(s, 5)
			got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: s, After: chunk.Position{Seq: want[1].Seq}}))
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
