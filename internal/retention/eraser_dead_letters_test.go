package retention

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// The dead letters of a session are deleted with it, those of other sessions stay.
func TestDeadLetters(t *testing.T) {
	w := newEnv(t)
	s := chunk.RootSession("acme", "s1")
	m := codec.EncodeJSON(codec.Envelope{Session: s, Epoch: 1, Ordinal: 1},
		codec.Header{Type: chunk.TypeTextDelta, Timestamp: 1}, []byte(`{"type":"text_delta","agentId":"s1","agentType":"t","timestamp":1,"delta":"x"}`))
	for subject, data := range map[string][]byte{
		"tr.deadletters.acme.s1.s1.1-a": nil, "tr.deadletters.acme.s1.s1.2-a": nil, "tr.deadletters.acme.s2.s2.3-a": nil, "tr.deadletters.0.4-a": nil,
	} {
		if _, err := w.JS.Publish(t.Context(), subject, data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.JS.PublishMsg(t.Context(), &nats.Msg{Subject: "tr.chunks.0.acme.s1.s1", Header: m.Header, Data: m.Data}); err != nil {
		t.Fatal(err)
	}
	if err := w.eraser.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	stream, err := w.JS.Stream(t.Context(), "TR_DEADLETTERS")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	if left := info.State.Subjects; len(left) != 2 || left["tr.deadletters.acme.s2.s2.3-a"] != 1 || left["tr.deadletters.0.4-a"] != 1 {
		t.Errorf("left: %v", left)
	}
}
