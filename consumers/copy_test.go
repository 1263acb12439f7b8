package consumers

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A client stores a record for the session of another tenant in its own, and copies it there by the reply subject of a direct get. Readers skip the copy, and
// read what follows.
func TestCopiedRecordIsSkipped(t *testing.T) {
	reported := make(chan Malformed, 10)
	w := newEnv(t, Config{OnMalformed: func(f Malformed) { reported <- f }})
	want := w.sayAll(alice, 2)
	last := want[1]
	forged, err := codec.Encode(codec.Envelope{Session: alice, Epoch: last.Epoch, Ordinal: last.Ordinal + 1},
		chunk.Chunk{AgentID: alice.ID, AgentType: "demo", Step: 1, Body: chunk.TextDelta{Delta: "forged"}})
	if err != nil {
		t.Fatal(err)
	}
	const mine, victim = "tr.chunks.0.umbrella.mallory.mallory", "tr.chunks.0.acme.alice.alice"
	if _, err := w.js.PublishMsg(t.Context(), &nats.Msg{Subject: mine, Header: forged.Header, Data: forged.Data}); err != nil {
		t.Fatal(err)
	}
	if err := w.js.Conn().PublishRequest("$JS.API.DIRECT.GET.TR_CHUNKS_0", victim, fmt.Appendf(nil, `{"last_by_subj":%q}`, mine)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the copy", func(ctx context.Context) error {
		_, err := jsclient.New(w.js).Next(ctx, "TR_CHUNKS_0", victim, uint64(last.Seq)+1)
		return err
	})
	want = append(want, w.say(alice, "the true one"))
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if f := <-reported; f.Subject != victim {
		t.Errorf("malformed: %+v", f)
	}
}
