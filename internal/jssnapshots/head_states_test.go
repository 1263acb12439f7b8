package jssnapshots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Every head is found, also where several responses are needed; a session without a head, and one whose key was deleted by hand, are left out. An error says nothing of
// any session.
func TestHeadStates(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
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
		revisions[s] = mustSave(t, st, f.Snapshot(), 0)
	}
	mustSave(t, st, fold.NewTombstone(all[0], chunk.Position{Seq: 100, Ordinal: 2}, 2), revisions[all[0]])
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err == nil {
		err = kv.Delete(t.Context(), "h.acme.s1.s1")
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := st.HeadStates(t.Context(), 0, append(all, chunk.RootSession("acme", "missing")))
	if err != nil || len(got) != n-1 {
		t.Fatalf("%d heads, %v, want %d", len(got), err, n-1)
	}
	for i, s := range all {
		want := HeadState{Last: chunk.Seq(i + 1), Began: time.UnixMilli(int64(i + 1)), First: 1}
		switch i {
		case 0:
			want = HeadState{Deleted: true, Last: 100, First: 1}
		case 1:
			want = HeadState{}
		}
		if got[s] != want {
			t.Errorf("head of %s is %+v, want %+v", s, got[s], want)
		}
	}
	if created, err := st.Created(t.Context(), 0); err != nil || time.Since(created) > time.Hour {
		t.Errorf("created %s, %v", created, err)
	}
	if err := js.DeleteStream(t.Context(), "KV_TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	if got, err := st.HeadStates(t.Context(), 0, all[:2]); err == nil {
		t.Errorf("without a bucket: %v, want an error", got)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_TR_SNAPSHOTS", Subjects: []string{"$KV.TR_SNAPSHOTS.>"}}); err != nil {
		t.Fatal(err)
	}
	if got, err := st.HeadStates(t.Context(), 0, all[:2]); err == nil {
		t.Errorf("of a bucket that allows no direct reads: %v, want an error", got)
	}
}
