package jscontrol

import (
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// With another subject prefix, and with a JetStream domain, which has another API prefix, a suspended run works as usual.
func TestOtherNamesAndDomains(t *testing.T) {
	srv := natstest.Start(t, natstest.ServerConfig(`jetstream: {domain: "hub"}`))
	nc := srv.Conn(t)
	for prefix, open := range map[string]func() (jetstream.JetStream, error){
		"tr":    func() (jetstream.JetStream, error) { return jetstream.New(nc) },
		"eu.x":  func() (jetstream.JetStream, error) { return jetstream.New(nc) },
		"named": func() (jetstream.JetStream, error) { return jetstream.NewWithDomain(nc, "hub") },
		"api":   func() (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "$JS.hub.API") },
	} {
		t.Run(prefix, func(t *testing.T) {
			js, err := open()
			if err != nil {
				t.Fatal(err)
			}
			layout := subjects.Layout{Prefix: prefix}
			streamtest.Ensure(t, js, topology.Config{Layout: layout})
			b := newInbox(t, js, InboxConfig{Layout: layout})
			hints, stop, err := b.Watch(session, "run-1")
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			want := fullAnswers()[0]
			if err := b.Answer(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			natstest.Receive(t, "a hint", hints)
			if got := answers(t, b, "run-1"); !reflect.DeepEqual(got, []control.Answer{want}) {
				t.Errorf("got %+v", got)
			}
			wantAnswered(t, b.Answer(t.Context(), want))
			for _, kind := range []control.StopKind{control.StopInterrupt, control.StopAbort} {
				if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: kind}); err != nil {
					t.Fatal(err)
				}
			}
			if s, ok, err := b.StopRequest(t.Context(), session, "run-1"); !ok || s.Kind != control.StopAbort {
				t.Errorf("%+v, %v", s, err)
			}
			queue, err := NewQueue(js, QueueConfig{Layout: layout})
			if err != nil {
				t.Fatal(err)
			}
			c := control.Command{Kind: control.Execute, Session: session, AgentType: "support", RunID: "r1"}
			if err := queue.Request(t.Context(), c, 0); err != nil {
				t.Fatal(err)
			}
			if got, _, err := queue.Pending(t.Context(), session, "support"); got.RunID != "r1" {
				t.Errorf("pending %+v, %v", got, err)
			}
			c.Kind = control.Expire
			if err := queue.PublishAt(t.Context(), c, time.Now()); err != nil {
				t.Fatal(err)
			}
			if some, err := queue.DeleteSession(t.Context(), session); !some || err != nil {
				t.Errorf("withdrawn: %v, %v", some, err)
			}
			if some, err := b.DeleteSession(t.Context(), session); !some || err != nil {
				t.Errorf("forgotten: %v, %v", some, err)
			}
			if got := answers(t, b, "run-1"); got != nil {
				t.Errorf("left: %+v", got)
			}
		})
	}
}
