package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
)

// Every head is found, also where several responses are needed; a session without a head, and one whose key was deleted by hand, are left out. An error says nothing of
// any session.
func TestHeads(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	streamtest.Ensure(t, js, topology.Config{})
	st, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := heads{jsclient.New(js), "TR_SNAPSHOTS"}
	save := func(snap fold.Snapshot, after projector.Revision) projector.Revision {
		t.Helper()
		r, err := st.Save(t.Context(), snap, after)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const n = 60
	var all []chunk.Session
	revisions := map[chunk.Session]projector.Revision{}
	for i := range n {
		s := chunk.RootSession("acme", fmt.Sprint("s", i))
		all = append(all, s)
		f := fold.New(s)
		record := chunk.Record{Session: s, Seq: chunk.Seq(i + 1), Ordinal: 1, Epoch: 1, StoredAt: time.UnixMilli(int64(i + 1)), Type: chunk.TypeTextDelta}
		record.Data = []byte(`{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"delta":"` + strings.Repeat("x", 50_000) + `"}`)
		if err := f.Apply(record); err != nil {
			t.Fatal(err)
		}
		revisions[s] = save(f.Snapshot(), 0)
	}
	save(fold.NewTombstone(all[0], chunk.Position{Seq: 100, Ordinal: 2}, 2), revisions[all[0]])
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err == nil {
		err = kv.Delete(t.Context(), "h.acme.s1.s1")
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.read(t.Context(), append(all, chunk.RootSession("acme", "missing")))
	if err != nil || len(got) != n-1 {
		t.Fatalf("%d heads, %v, want %d", len(got), err, n-1)
	}
	for i, s := range all {
		want := jssnapshots.HeadIndex{Seq: chunk.Seq(i + 1), Created: int64(i + 1)}
		switch i {
		case 0:
			want = jssnapshots.HeadIndex{Seq: 100, Deleted: true}
		case 1:
			want = jssnapshots.HeadIndex{}
		}
		if head := got[s]; head.Seq != want.Seq || head.Created != want.Created || head.Deleted != want.Deleted || head.Since > 1 {
			t.Errorf("head of %s is %+v, want %+v", s, got[s], want)
		}
	}
	if created, err := h.created(t.Context()); err != nil || time.Since(created) > time.Hour {
		t.Errorf("created %s, %v", created, err)
	}
	if err := js.DeleteStream(t.Context(), "KV_TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(t.Context(), all[:2]); err == nil {
		t.Errorf("without a bucket: %v, want an error", got)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_TR_SNAPSHOTS", Subjects: []string{"$KV.TR_SNAPSHOTS.>"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := h.read(t.Context(), all[:2]); err == nil {
		t.Errorf("of a bucket that allows no direct reads: %v, want an error", got)
	}
}
