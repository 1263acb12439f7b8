package main

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

// TestTailDuringACleanup checks that a cleanup of records that tail has not read yet does not end it.
func TestTailDuringACleanup(t *testing.T) {
	w := stack.Start(t, stack.Options{})
	s := chunk.RootSession("acme", "s1")
	run, err := w.NewWriter(producers.Config{}).Start(t.Context(), s, chunk.RunStarted{Mode: "execute"}, producers.AgentType("assistant"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(step int64, n int) {
		t.Helper()
		run.SetStep(step)
		for range n {
			if err := run.EmitBody(t.Context(), chunk.Custom{EventName: "progress", Data: []byte(`{}`)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(1, 2*jsreader.BatchReplay)
	write(2, 2)
	write(1, 1)
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	flags := tailFlags{scope: "tree"}
	shown := 0
	for _, err := range flags.follow(t.Context(), w.Log, s) {
		if err != nil {
			t.Fatalf("after %d records: %v", shown, err)
		}
		if shown++; shown > 1 {
			continue
		}
		if _, err := run.CleanupToStep(t.Context(), 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := run.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if want := 1 + 2*jsreader.BatchReplay + 1 + 2; shown != want {
		t.Errorf("%d records, want %d", shown, want)
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
}
