package jsclient_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A client makes the server write to a subject that it names as the reply of a request. No way to read a message has the content of such a copy, and the message has
// the sequence and the subject where it is, not those that its headers claim.
func TestCopiesHaveNoContent(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, AllowDirect: true, RePublish: &jetstream.RePublish{Source: "s.>", Destination: "live.>"},
	}); err != nil {
		t.Fatal(err)
	}
	live, err := js.Conn().SubscribeSync("live.victim")
	if err != nil {
		t.Fatal(err)
	}
	forged := &nats.Msg{Subject: "s.mine", Data: []byte("forged"), Header: nats.Header{"ce-type": {"x"}}}
	if _, err := js.PublishMsg(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{`{"last_by_subj":"s.mine"}`, `{"last_by_subj":"s.none"}`, `{"multi_last":["s.mine"]}`} {
		if err := js.Conn().PublishRequest("$JS.API.DIRECT.GET.S", "s.victim", []byte(request)); err != nil {
			t.Fatal(err)
		}
	}
	const copies = 4 // a message, a status, a message and the status of its end
	c := jsclient.New(js)
	natstest.Eventually(t, "copies", func(ctx context.Context) error {
		_, err := c.At(ctx, "S", copies+1)
		return err
	})
	check := func(way string, m jsclient.Message, err error) {
		t.Helper()
		if err != nil || len(m.Data) > 0 || m.Header.Get("ce-type") != "" || m.Subject != "s.victim" || m.Seq < 2 || m.Seq > copies+1 {
			t.Errorf("%s: %+v, %v", way, m, err)
		}
	}
	m, err := c.Last(t.Context(), "S", "s.victim")
	check("leader", m, err)
	for seq := uint64(2); seq <= copies+1; seq++ {
		m, err = c.At(t.Context(), "S", seq)
		check("replica", m, err)
	}
	if _, err := c.LastOfEach(t.Context(), "S", []string{"s.victim"}, func(m jsclient.Message) { check("last of each", m, nil) }); err != nil {
		t.Error(err)
	}
	reader := jsreader.NewOrdered(c, jsreader.OrderedConfig{Stream: "S", Filter: "s.victim"})
	if err := reader.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for range copies {
		e, err := reader.Next(t.Context())
		check("consumer", e.Message, err)
		republished, err := live.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := jsclient.Republished(republished)
		check("republished", m, err)
	}
}
