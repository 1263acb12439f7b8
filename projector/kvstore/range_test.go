package kvstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/storetest"
	"github.com/tailrace/tailrace/subjects"
)

// A part of the messages is what the head counts, or nothing: somebody who has
// the head of a session that was deleted, and has begun anew since, does not get
// messages of the new one, which have the same keys.
func TestRangeOfAnotherLife(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	st := open(t, js, subjects.Layout{})
	log := storetest.NewLog()
	storetest.NewAuthor(log, s1, 1).Write(t, 100)
	first := storetest.Fold(t, log, s1)
	old, err := st.Save(t.Context(), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	head, _, err := st.Load(t.Context(), s1)
	if err != nil {
		t.Fatal(err)
	}
	grave := fold.Grave(s1, first.Position, first.Epoch+1)
	buried, err := st.Save(t.Context(), grave, old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Clear(t.Context(), grave, buried, buried); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Range(t.Context(), head, old, 0, 2); !errors.Is(err, fold.ErrTorn) {
		t.Errorf("deleted: %v, want ErrTorn", err)
	}
	anew := storetest.NewLog()
	storetest.NewAuthor(anew, s1, 2).Write(t, 100)
	second := storetest.Fold(t, anew, s1)
	if first.Generation(0) != second.Generation(0) {
		t.Fatal("the keys differ")
	}
	now, err := st.Save(t.Context(), second, buried)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Range(t.Context(), head, old, 0, 2); !errors.Is(err, fold.ErrTorn) {
		t.Errorf("begun anew: %v, want ErrTorn", err)
	}
	if data, err := st.Range(t.Context(), second.Release(), now, 0, 2); err != nil || !bytes.Equal(data[1], second.Finished()[1].Data) {
		t.Errorf("of the new one: %q, %v", data, err)
	}
	// A replica that lags has not come as far as the head that somebody read
	// elsewhere. This one lags behind a head that is not there yet.
	if _, err := st.Range(t.Context(), second.Release(), now+1, 0, 2); !errors.Is(err, fold.ErrTorn) {
		t.Errorf("from a replica that lags: %v, want ErrTorn", err)
	}
	// Somebody deletes a message by hand: the marker that takes its place is none.
	kv, err := js.KeyValue(t.Context(), "TR_SNAPSHOTS")
	if err != nil {
		t.Fatal(err)
	}
	key, err := messageKey(s1, 1, second.Generation(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Messages(t.Context(), second.Release()); !errors.Is(err, fold.ErrTorn) {
		t.Errorf("deleted by hand: %v, want ErrTorn", err)
	}
}

// A page has messages that are objects, and an answer that takes several.
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
	for _, w := range []fold.Window{{Limit: 2, Partial: true}, {Limit: 3, Before: "msg-4", Partial: true}, {Limit: 9, Partial: true}} {
		page, err := reader.Page(t.Context(), s1, w)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := snap.Page(w)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := page.Frontend(0).AppendJSON(nil), whole.Frontend(0).AppendJSON(nil); !bytes.Equal(got, want) {
			t.Errorf("%+v: %.200q of %d bytes, want %.200q of %d", w, got, len(got), want, len(want))
		}
	}
}

// text is large for an even n: too large for a value for n of 4.
func text(n int) string {
	size := []int{900 << 10, 10, 700 << 10, 10, 2 << 20, 10}[n]
	return strings.Repeat("x", size)
}
