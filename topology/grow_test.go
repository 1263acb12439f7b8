package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// The old partition stores what it gets under its other subjects as before, republishes it, and has no response for other writers. Growing is idempotent, and valid for
// the new layout only.
func TestGrow(t *testing.T) {
	server := natstest.Start(t)
	js, nc := server.JetStream(t), server.Conn(t)
	before := Config{Republish: true}
	if err := Ensure(t.Context(), js, before); err != nil {
		t.Fatal(err)
	}
	s := chunk.RootSession("acme", "s1")
	if _, err := js.Publish(t.Context(), must(before.Layout.Subject(s)), nil); err != nil {
		t.Fatal(err)
	}
	after := Config{Republish: true, Layout: subjects.Layout{Earlier: []int{1}, Partitions: 3}}
	if _, err := Grow(t.Context(), js, after); err == nil || !strings.Contains(err.Error(), "TR_CHUNKS_1: is missing") {
		t.Errorf("without the streams: %v", err)
	}
	for range 2 {
		if err := Ensure(t.Context(), js, after); err != nil {
			t.Fatal(err)
		}
		if err := Check(t.Context(), js, before); err != nil {
			t.Errorf("a process with the old layout before Grow: %v", err)
		}
	}
	for _, want := range [][]string{{"TR_CHUNKS_0"}, nil} {
		if closed, err := Grow(t.Context(), js, after); err != nil || !slices.Equal(closed, want) {
			t.Errorf("closed %q, %v; want %q", closed, err, want)
		}
		if err := Ensure(t.Context(), js, after); err != nil {
			t.Error(err)
		}
	}
	wantDifference(t, Check(t.Context(), js, before),
		"TR_CHUNKS_0: number of partitions is more than 1: the partitions have grown, and this one is closed, want 1; add the later numbers to Layout (TAILRACE_PARTITIONS)")

	live, err := nc.SubscribeSync(after.Layout.AllLive(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), must(before.Layout.Subject(s)), nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("a writer with the old layout: %v", err)
	}
	m := nats.NewMsg(must(after.Layout.ClosedSubject(0, s)))
	m.Header.Set(nats.ExpectedLastSubjSeqHdr, "1")
	ack, err := js.PublishMsg(t.Context(), m)
	if err != nil || ack.Stream != "TR_CHUNKS_0" || ack.Sequence != 2 {
		t.Fatalf("a writer with the new layout: %+v, %v", ack, err)
	}
	if got, err := live.NextMsg(10 * time.Second); err != nil || !strings.HasPrefix(got.Subject, "tr.live.0.acme.s1") {
		t.Errorf("republished %v, %v", got, err)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := stream.GetMsg(t.Context(), 2); err != nil || stored.Subject != must(before.Layout.Subject(s)) {
		t.Errorf("stored %+v, %v", stored, err)
	}
	m.Header.Set(nats.ExpectedLastSubjSeqHdr, "1")
	if _, err := js.PublishMsg(t.Context(), m); err == nil {
		t.Error("a second record after the same one is stored")
	}

	again := Config{Republish: true, Layout: subjects.Layout{Earlier: []int{1, 3}, Partitions: 4}}
	if err := Ensure(t.Context(), js, again); err != nil {
		t.Fatal(err)
	}
	if closed, err := Grow(t.Context(), js, again); err != nil || !slices.Equal(closed, []string{"TR_CHUNKS_1", "TR_CHUNKS_2", "TR_CHUNKS_3"}) {
		t.Errorf("the second time closed %q, %v", closed, err)
	}
}

func must(subject string, err error) string {
	if err != nil {
		panic(err)
	}
	return subject
}
