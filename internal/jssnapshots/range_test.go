package jssnapshots

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// Range returns messages of the given head, or an error: a reader with the head of a session that was deleted and has started again does not get messages of
// the new one, which have the same keys.
func TestRangeOfDeletedHead(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	storetest.NewSessionGenerator(log, s1, 1).Write(t, 2000)
	first := storetest.Fold(t, log, s1)
	old, err := st.Save(t.Context(), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := st.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	tombstone := fold.NewTombstone(s1, first.Position, first.Epoch+1)
	deleted, err := st.Save(t.Context(), tombstone, old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.DeleteData(t.Context(), tombstone, deleted, deleted, false); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Range(t.Context(), head, old, 0, 2); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("deleted: %v, want ErrInconsistent", err)
	}
	newLog := storetest.NewLog()
	storetest.NewSessionGenerator(newLog, s1, 2).Write(t, 2000)
	second := storetest.Fold(t, newLog, s1)
	if first.Generation(0) != second.Generation(0) {
		t.Fatal("the keys differ")
	}
	now, err := st.Save(t.Context(), second, deleted)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Range(t.Context(), head, old, 0, 2); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("started again: %v, want ErrInconsistent", err)
	}
	if data, err := st.Range(t.Context(), storetest.Trimmed(second), now, 0, 2); err != nil || !bytes.Equal(data[1], second.FinishedMessages()[1].Data) {
		t.Errorf("of the new one: %q, %v", data, err)
	}
	// A replica that lags does not have the head that was read from another one. Here a head that is not stored simulates that.
	if _, err := st.Range(t.Context(), storetest.Trimmed(second), now+1, 0, 2); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("from a replica that lags: %v, want ErrInconsistent", err)
	}
	// An operator deletes a message: the delete marker does not count as a message.
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	key, err := packKey(s1, place{index: 0, generation: second.Generation(0)})
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Messages(t.Context(), storetest.Trimmed(second)); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("deleted by hand: %v, want ErrInconsistent", err)
	}
}

// A page has messages that are objects, and an answer of several messages.
func TestPageOfLargeMessages(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	for n := range 6 {
		input := []chunk.InputMessage{{Content: text(n)}}
		log.Append(t, s1, 0, chunk.RunStarted{RunID: string(rune('a' + n)), Epoch: 1, Mode: "execute", Input: input})
	}
	snap := storetest.Fold(t, log, s1)
	if _, err := st.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	reader := projector.NewReader(st, log)
	for _, w := range []fold.PageQuery{{Limit: 2, Partial: true}, {Limit: 3, Before: "msg-4", Partial: true}, {Limit: 9, Partial: true}} {
		page, err := reader.MessagePage(t.Context(), s1, w)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := snap.MessagePage(w)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := aisdk.Page(page, 0).AppendJSON(nil), aisdk.Page(whole, 0).AppendJSON(nil); !bytes.Equal(got, want) {
			t.Errorf("%+v: %.200q of %d bytes, want %.200q of %d", w, got, len(got), want, len(want))
		}
	}
}

// text returns a large text for an even n; that for n of 4 is too large for a value.
func text(n int) string {
	size := []int{900 << 10, 10, 700 << 10, 10, 2 << 20, 10}[n]
	return strings.Repeat("x", size)
}
