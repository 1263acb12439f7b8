package storetest

import (
	"context"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// Fold returns the fold of the log of a session, without any store: the expected snapshot.
func Fold(tb testing.TB, log projector.Log, s chunk.Session) fold.Snapshot {
	tb.Helper()
	snap, err := projector.NewReader(NewMemory(), log).Snapshot(context.WithoutCancel(tb.Context()), s)
	if err != nil {
		tb.Fatalf("fold %s: %v", s, err)
	}
	return snap
}

// Text returns all stored data of a snapshot.
func Text(s fold.Snapshot) string {
	out := s.AppendHead(nil)
	for _, f := range s.FinishedMessages() {
		out = append(append(out, '\n'), f.Data...)
	}
	return string(out)
}

// Equal fails the test if two complete snapshots differ.
func Equal(tb testing.TB, what string, got, want fold.Snapshot) {
	tb.Helper()
	if g, w := Text(got), Text(want); g != w {
		tb.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// Stored returns the complete snapshot that a store has of s, without reading the log.
func Stored(tb testing.TB, store projector.Store, s chunk.Session) fold.Snapshot {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	snap, _, err := store.Load(ctx, s)
	if err != nil {
		tb.Fatalf("load %s: %v", s, err)
	}
	data, err := store.Messages(ctx, snap)
	if err != nil {
		tb.Fatalf("messages of %s: %v", s, err)
	}
	f := fold.From(snap)
	if err := f.Attach(data); err != nil {
		tb.Fatalf("messages of %s: %v", s, err)
	}
	return f.Snapshot()
}

// Trimmed returns s without its finished messages.
func Trimmed(s fold.Snapshot) fold.Snapshot {
	f := fold.From(s)
	f.Trim()
	return f.Snapshot()
}
