package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector"
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
	source, err := NewSource(w.js, SourceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := projector.NewRunner(source, w.store, w.log, projector.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	w.copy(log.Records(s))
	natstest.Eventually(t, "the projector", func(ctx context.Context) error {
		head, _, err := w.store.Load(ctx, s)
		if err == nil && head.Position.Ordinal != want.Position.Ordinal {
			err = fmt.Errorf("head at %d of %d", head.Position.Ordinal, want.Position.Ordinal)
		}
		return err
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := runner.Stats().TooLarge; n != 0 {
		t.Errorf("%d saves were too large", n)
	}
	stream, err := w.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(w.layout.AllFilter(0))); err != nil {
		t.Fatal(err)
	}
	snap, err := w.reader.Snapshot(t.Context(), s)
	if err != nil || string(snap.State) != string(want.State) || snap.FinishedCount() != want.FinishedCount() {
		t.Errorf("without the log: %d bytes of state, %d messages, %v", len(snap.State), snap.FinishedCount(), err)
	}
}
