package storetest

import (
	"context"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// Fold is what the log says of a session: the snapshot that everybody must
// arrive at. It is read without any store.
func Fold(t testing.TB, log projector.Log, s chunk.Session) fold.Snapshot {
	t.Helper()
	snap, err := projector.NewReader(NewMemory(), log).Snapshot(context.WithoutCancel(t.Context()), s)
	if err != nil {
		t.Fatalf("fold %s: %v", s, err)
	}
	return snap
}

// Text is everything that is stored of a snapshot.
func Text(s fold.Snapshot) string {
	out := string(s.AppendHead(nil))
	for _, f := range s.Finished() {
		out += "\n" + string(f.Data)
	}
	return out
}

// Equal fails the test when two complete snapshots differ.
func Equal(t testing.TB, what string, got, want fold.Snapshot) {
	t.Helper()
	if g, w := Text(got), Text(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// Stored is the snapshot that a store has of s, complete, without the log.
func Stored(t testing.TB, store projector.Store, s chunk.Session) fold.Snapshot {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	snap, _, err := store.Load(ctx, s)
	if err != nil {
		t.Fatalf("load %s: %v", s, err)
	}
	data, err := store.Messages(ctx, snap)
	if err != nil {
		t.Fatalf("messages of %s: %v", s, err)
	}
	if snap, err = snap.Hold(data); err != nil {
		t.Fatalf("messages of %s: %v", s, err)
	}
	return snap
}
