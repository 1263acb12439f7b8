package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// Two megabytes of state: the custom state of a session grows to its limit, and the head contains it twice, in its current form and in the form at the start of
// the turn. That is more than a NATS message holds. The projector saves it, a reader with only the store reads it, and a patch beyond the limit is rejected and
// counted.
func TestTwoMegabytesOfState(t *testing.T) {
	w := newEnv(t)
	s := chunk.RootSession("acme", "large")
	log := storetest.NewLog()
	patch := func(key string) {
		v := chunk.Value(`"` + strings.Repeat(key, 250<<10) + `"`)
		log.Append(t, s, 1, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/" + key, Value: &v}}})
	}
	for run := range 2 {
		log.Append(t, s, 0, chunk.RunStarted{RunID: fmt.Sprint(run), Epoch: int64(run + 1), Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}})
		for _, key := range []string{"a", "b", "c", "d", "e"}[:4+run] {
			patch(key) // in the second run others of the same size, and one too many
		}
		v := chunk.Value(fmt.Sprint(run))
		log.Append(t, s, 1, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/run", Value: &v}}})
	}
	want := storetest.Fold(t, log, s)
	if n := len(want.AppendHead(nil)); n < 2_000_000 || want.Faults.RejectedPatches != 1 {
		t.Fatalf("the head has %d bytes, %d patches were refused", n, want.Faults.RejectedPatches)
	}
	stop := w.projectOnce()
	w.copy(log.Records(s))
	w.awaitHead(s, want.Position.Ordinal)
	if n := stop().TooLarge; n != 0 {
		t.Errorf("%d saves were too large", n)
	}
	stream, err := w.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(names.Layout(w.layout).AllFilter(0))); err != nil {
		t.Fatal(err)
	}
	snap, err := w.reader.Snapshot(t.Context(), s)
	if err != nil || string(snap.State) != string(want.State) || snap.FinishedCount() != want.FinishedCount() {
		t.Errorf("without the log: %d bytes of state, %d messages, %v", len(snap.State), snap.FinishedCount(), err)
	}
}

// projectOnce runs a projector until stop is called, which returns its figures.
func (w *env) projectOnce() (stop func() projector.Stats) {
	w.tb.Helper()
	source, err := NewSource(w.js, SourceConfig{})
	if err != nil {
		w.tb.Fatal(err)
	}
	runner, err := projector.NewRunner(source, w.store, w.log, projector.Config{})
	if err != nil {
		w.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	return func() projector.Stats {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.tb.Error(err)
		}
		return runner.Stats()
	}
}

func (w *env) awaitHead(s chunk.Session, at chunk.Ordinal) {
	w.tb.Helper()
	natstest.Eventually(w.tb, "the projector", func(ctx context.Context) error {
		head, _, err := w.store.Load(ctx, s)
		if err == nil && head.Position.Ordinal != at {
			err = fmt.Errorf("head at %d of %d", head.Position.Ordinal, at)
		}
		return err
	})
}

// The pages of a session whose answer is one text of 19 MiB, which has not ended, are read with a limit of 16 MiB: each reads the head, which has a bounded
// part of the text.
func TestPagesOfLargeOpenMessage(t *testing.T) {
	w := newEnv(t)
	s := chunk.RootSession("acme", "open")
	producer, err := producers.New(w.js, producers.Config{Pace: producers.Off, Positions: w.reader})
	if err != nil {
		t.Fatal(err)
	}
	run, err := producer.Start(t.Context(), s, chunk.RunStarted{Input: []chunk.InputMessage{{Content: "q"}}})
	if err != nil {
		t.Fatal(err)
	}
	const pieces, size = 48, 400 << 10
	for n := range pieces {
		if err := run.EmitBody(t.Context(), chunk.TextDelta{Delta: strings.Repeat(string(rune('a'+n%26)), size)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := projector.Rebuild(t.Context(), w.store, w.log, s); err != nil {
		t.Fatal(err)
	}
	text, last := "", ""
	for q := (fold.PageQuery{Limit: 1, Parts: 1, Partial: true}); ; {
		page, err := w.reader.MessagePage(projector.WithReadLimit(t.Context(), 16<<20), s, q)
		if err != nil {
			t.Fatalf("the page before %q: %v", q.Before, err)
		}
		list, older := page.Messages()
		for i := range list {
			for _, p := range list[i].Parts {
				text = p.Text + text
				last = fold.MessageID(list[i].Shown)
			}
		}
		if q.Before = older; older == "" {
			break
		}
	}
	if len(text) != pieces*size+len("q") || last != "msg-0" || text[1] != 'a' {
		t.Errorf("%d bytes, the first message is %q", len(text), last)
	}
	if err := errors.Join(run.Close(), producer.Close()); err != nil {
		t.Error(err)
	}
}
