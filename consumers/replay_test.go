package consumers

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
)

func TestReplayIsWhatWasWritten(t *testing.T) {
	w := newEnv(t, Config{})
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
	w := newEnv(t, Config{})
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
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 2*jsreader.BatchReplay+17)
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

func TestUnknownSessionIsNoBlockedReader(t *testing.T) {
	w := newEnv(t, Config{})
	w.say(chunk.RootSession("acme", "bob"), "another session")
	for name, seq := range map[string]func() error{
		"replay":      func() error { _, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{})); return err },
		"follow":      func() error { _, err := collect(w.reader.Follow(t.Context(), alice, chunk.Position{})); return err },
		"tree":        func() error { _, err := collect(w.reader.FollowTree(t.Context(), alice, 0)); return err },
		"replay tree": func() error { _, err := collect(w.reader.ReplayTree(t.Context(), alice, 0)); return err },
		"last":        func() error { _, err := w.reader.Last(t.Context(), alice); return err },
	} {
		if err := seq(); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("%s: err = %v, want ErrUnknownSession", name, err)
		}
	}
	w.noConsumers()
}

// More than one request may carry: the server ends requests by their bytes.
func TestLargeRecords(t *testing.T) {
	w := newEnv(t, Config{})
	var want []chunk.Record
	for range 24 {
		want = append(want, w.say(alice, strings.Repeat("x", 400<<10)))
	}
	got, err := collect(w.reader.Replay(t.Context(), alice, chunk.Position{}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	got, err = handleMsg(w.reader.Follow(t.Context(), alice, chunk.Position{}), len(want))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if n := w.reader.Stats().Resets; n > 0 {
		t.Errorf("%d resets for nothing", n)
	}
	w.noConsumers()
}
