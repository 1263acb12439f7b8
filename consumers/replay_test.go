package consumers

import (
	"errors"
	"iter"
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
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
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
			got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, After: after}))
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
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
}

func TestUnknownSessionDoesNotBlockTheReader(t *testing.T) {
	w := newEnv(t, Config{})
	w.say(chunk.RootSession("acme", "bob"), "another session")
	for name, seq := range map[string]func() error{
		"replay": func() error { _, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice})); return err },
		"follow": func() error { _, err := collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice})); return err },
		"tree": func() error {
			_, err := collect(w.reader.Follow(t.Context(), chunk.Range{Session: alice, Tree: true}))
			return err
		},
		"replay tree": func() error {
			_, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice, Tree: true}))
			return err
		},
		"last": func() error { _, err := w.reader.Last(t.Context(), alice); return err },
	} {
		if err := seq(); !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("%s: err = %v, want ErrUnknownSession", name, err)
		}
	}
	w.noConsumers()
}

// The records are larger than one request may return: the server ends requests by their bytes.
func TestLargeRecords(t *testing.T) {
	w := newEnv(t, Config{})
	var want []chunk.Record
	for range 24 {
		want = append(want, w.say(alice, strings.Repeat("x", 400<<10)))
	}
	got, err := collect(w.reader.Replay(t.Context(), chunk.Range{Session: alice}))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	got, err = handleMsg(w.reader.Follow(t.Context(), chunk.Range{Session: alice}), len(want))
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	if n := w.reader.Stats().Resets; n > 0 {
		t.Errorf("%d resets, want none", n)
	}
	w.noConsumers()
}

// A field that would have no effect is refused, by each iterator and each time it is used.
func TestRangesThatCannotBeRead(t *testing.T) {
	w := newEnv(t, Config{})
	rec := w.say(alice, "hello")
	tree := chunk.Range{Session: alice, Tree: true, After: rec.Position()}
	for name, tt := range map[string]struct {
		read iter.Seq2[chunk.Record, error]
		want string
	}{
		"a followed range with an end": {w.reader.Follow(t.Context(), chunk.Range{Session: alice, Through: 7}), "Through is 7"},
		"a tree after an ordinal":      {w.reader.Replay(t.Context(), tree), "After.Ordinal is 1"},
		"a followed tree after one":    {w.reader.Follow(t.Context(), tree), "After.Ordinal is 1"},
	} {
		for range 2 {
			if got, err := collect(tt.read); len(got) > 0 || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%s: %v, then %v; want %s", name, positions(got), err, tt.want)
			}
		}
	}
	w.noConsumers()
}
