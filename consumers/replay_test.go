package consumers

import (
	"errors"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

func TestReplayIsWhatWasWritten(t *testing.T) {
	w := newWorld(t, Config{})
	bob := chunk.RootSession("acme", "bob")
	var want []chunk.Record
	for range 30 {
		want = append(want, w.say(alice, "hello"))
		w.say(bob, "between")
	}
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	w.noConsumers()
}

func TestReplayFromEachPosition(t *testing.T) {
	w := newWorld(t, Config{})
	want := w.sayAll(alice, 12)
	for i, rec := range want {
		for name, after := range map[string]chunk.Position{"bare": {Seq: rec.Seq}, "proved": rec.Position()} {
			got, err := collect(w.reader.Replay(t.Context(), alice, after))
			if err != nil {
				t.Fatalf("%s cursor %d: %v", name, rec.Seq, err)
			}
			same(t, got, want[i+1:])
		}
	}
	w.noConsumers()
}

func TestReplayLongerThanABatch(t *testing.T) {
	w := newWorld(t, Config{})
	want := w.sayAll(alice, 2*batchReplay+17)
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

func TestUnknownSessionIsNoBlockedReader(t *testing.T) {
	w := newWorld(t, Config{})
	w.say(chunk.RootSession("acme", "bob"), "somebody else")
	for name, seq := range map[string]func() error{
		"replay":      func() error { _, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{})); return err },
		"follow":      func() error { _, err := collect(w.reader.Follow(t.Context(), alice, chunk.Position{})); return err },
		"tree":        func() error { _, err := collect(w.reader.Tree(t.Context(), alice, 0)); return err },
		"replay tree": func() error { _, err := collect(w.reader.ReplayTree(t.Context(), alice, 0)); return err },
		"last":        func() error { _, err := w.reader.Last(t.Context(), alice); return err },
	} {
		if err := seq(); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("%s: err = %v, want ErrUnknownSession", name, err)
		}
	}
	w.noConsumers()
}
